/*
 * options.h: parses and checks the command line of a training program. The options that define a
 * run are saved in checkpoints as text, and restored from it.
 *
 * Numbers have a decimal point in every locale: the program never calls setlocale.
 */
#ifndef TRAINER_OPTIONS_H
#define TRAINER_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h> /* FILE */

#include "trainer/base/fault.h"
#include "trainer/data/augment/augment.h"
#include "trainer/model/keep_presets.h"
#include "trainer/model/trainer_model.h"
#include "trainer/reduce/ranks.h"

enum {
    OPTIONS_MOST = 112, /* at most this many options */
    OPTIONS_EPOCHS_MOST = 1000000
};

/* An option that was not given. Its value is settled later or left to the library. It is not saved
 * in checkpoints. */
#define OPTIONS_UNSET SIZE_MAX

/* One option; see options_table.h. */
typedef struct option_row option_row;

typedef enum options_schedule { OPTIONS_COSINE, OPTIONS_STEP, OPTIONS_LINEAR } options_schedule;

/* Zero in a size or limit means that the architecture or the data decides. */
typedef struct options options;
struct options {
    const trainer_model *model;
    size_t arch; /* position in model->archs */
    uint64_t image_size, classes;
    uint64_t extra[TRAINER_EXTRAS]; /* by position in model->extras */
    const char *data;
    uint64_t train_limit, test_limit;
    bool no_augment;
    uint64_t shift;        /* pixels; 0: an eighth of a side */
    size_t border;         /* position in options_borders */
    size_t mirror;         /* position in options_mirrors */
    uint64_t rand_augment; /* magnitude; 0: off */
    double erase;          /* probability; 0: off */
    double mixup;          /* alpha; 0: off */
    double cutmix;         /* likewise */
    size_t views;          /* position in options_views */
    size_t normalise;      /* dataset_normalise */

    size_t activations; /* position in model->keep->preset_names */
    double sparsity;
    clprune_block block;
    size_t norm;      /* clprune_norm */
    size_t criterion; /* clprune_criterion, or OPTIONS_UNSET: the preset's */
    size_t centre;    /* position in options_centres, or OPTIONS_UNSET: the preset's */
    size_t values;    /* clprune_value_type */
    size_t indices;   /* position in options_indices, or OPTIONS_UNSET: the preset's */
    size_t precision; /* position in options_precisions, or OPTIONS_UNSET: the library's default */
    size_t gelu_code; /* position in options_gelu_codes */
    size_t code_bits; /* position in options_code_bits */
    size_t group;     /* position in options_groups */
    size_t rounding;  /* clprune_rounding */
    size_t rotate;    /* position in options_rotate */
    size_t store;     /* position in options_stores */
    uint64_t pool;    /* places per side of a cell */
    const char *keep_file;
    bool skip_broken;

    uint64_t epochs, batch_size, micro_batches;
    size_t optimizer;  /* of clprune_optimizer_describe */
    double momentum;   /* of sgd */
    bool nesterov;     /* likewise */
    double beta2;      /* of the others; 0: the optimizer's */
    const char *rates; /* param_rates reads it; NULL: all are 1 */
    double lookahead;  /* 0: off */
    double ema;        /* 0: off */
    double lr, weight_decay;
    double warmup_epochs, label_smoothing;
    size_t schedule;        /* options_schedule */
    const char *milestones; /* learning_rate_milestones reads it */
    const char *points;     /* learning_rate_points */
    double clip_norm;       /* 0: off */
    bool early_update, zero, sync_batch_norm;
    size_t reduce_bits; /* position in options_reduce_bits */
    uint64_t seed;

    rank_group ranks;       /* the processes of the run; of a plan, their number */
    double peer_timeout;    /* seconds */
    uint64_t processes;     /* to plan for; 0: those that were started */
    const char *device;     /* NULL: the library's choice */
    const char *output_dir; /* NULL: nothing is written, or new_folder */
    bool new_folder;        /* a folder of its own is made for the run, see run_folder.h */
    bool overwrite;
    uint64_t checkpoint_every;   /* epochs; 0: never */
    uint64_t checkpoint_minutes; /* 0: only after epochs */
    uint64_t test_every;         /* epochs; 0: only after the last */
    uint64_t test_steps;         /* 0: only after epochs */
    bool best;                   /* keeps best.ckpt */
    uint64_t patience;           /* tests; 0: never */
    const char *resume;
    uint64_t steps;            /* 0: all epochs */
    uint64_t check_finite;     /* steps; 0: none */
    uint64_t gradient_check;   /* batches; 0: none */
    uint64_t gradient_draws;   /* per batch */
    uint64_t sample;           /* tokens; 0: none */
    const char *prompt;        /* of it: sample.h; NULL: the first tokens of the tests */
    double temperature, top_p; /* likewise */
    size_t chat;               /* position in options_chat */
    size_t packing;            /* position in options_packing */
    const char *model_folder;  /* NULL: the model is `arch` */
    const char *train, *lora;  /* NULL: all is trained; no adapters */
    double lora_alpha;         /* 0: twice the rank */
    double dropout, lora_dropout;
    bool rslora;
    size_t base_bits; /* position in options_base_bits */
    const char *import_file, *export_file, *adapters;
    const char *tensorboard;
    const char *summary_json;
    const char *plan_csv;
    size_t plan_device;    /* position in options_plan_devices */
    uint64_t memory_limit; /* bytes; 0: none */
    bool list_devices, plan, test_only, memory_report, quiet, help, version;

    bool given[OPTIONS_MOST]; /* on the command line, by option_row_at's index */
    uint64_t run_images;      /* train_limit of the run in the checkpoint; 0: a new run */
    uint64_t given_limits[2]; /* train_limit and test_limit of the command line; 0: not given */
    char *restored;           /* memory of options restored from a checkpoint */
    options *before;          /* those of the run in the checkpoint; NULL: a new run */
    char *folder;             /* memory of output_dir if it follows from resume */
    char *keep_text;          /* of keep_file, the checkpoint or auto_keep.h; NULL: no overrides */
};

/* Fills *o from the command line, defaults included. Fails with CODE_USAGE and a line that names
 * the option. Strings point into argv. Call options_close in any case. */
bool options_parse(const trainer_model *model, int argc, char **argv, options *o, fault *f);

/* The defaults of a model, which options_parse begins with. */
options options_defaults(const trainer_model *model);

/* The name of the preset in o->activations. */
const char *options_preset(const options *o);

/* Frees restored, before, folder and keep_text. */
void options_close(options *o);

/* Settles what depends on the preset in o->activations: sparsity is 0 if it prunes nothing;
 * criterion, centre and indices are the preset's unless given. */
void options_settle(options *o);

/* Whether an option was on the command line; name without dashes. */
bool options_given(const options *o, const char *name);

/* Whether a command line without this option is right, too. */
bool options_right_without(const options *o, const char *name);

/* The text of --help. */
void options_print_help(const trainer_model *model, FILE *file);

/* The options that a checkpoint needs: "name=value" strings, each ended by NUL. The caller frees
 * *text. With `all`, those that a summary has: also the options of this process that decide on
 * results, and empty values of options that are not set. */
bool options_save(const options *o, bool all, char **text, size_t *size, fault *f);

/* Likewise "--name=value" of those that all ranks of a run must have, also if they are not set. */
bool options_of_ranks(const options *o, char **text, size_t *size, fault *f);

/* Restores options from a checkpoint unless they were given on the command line. A given option
 * must agree (CODE_USAGE), except those with OPTION_TAKE or OPTION_CHANGE in options_table.c, such
 * as
 * --data and --lr. Unknown
 * ones are CODE_DATA. */
bool options_restore(options *o, const char *text, size_t size, fault *f);
/* Its last part: fails (CODE_USAGE) where options of this process do not go with the run's. */
bool options_check_restored(const options *o, fault *f);

/* Writes the options of the run in the checkpoint, with OPTION_CHANGE, that have another value now
 * (" --lr 0.1") to `was`, and their values now to `now`, each of `size` bytes; "" where all are
 * the same. */
void options_changed(const options *o, char *was, char *now, size_t size);

/* How a run keeps a tensor in a form. Settings that the form does not read are set, too.
 * keep_set_grids adds the grid. */
clprune_keep options_keep(const options *o, clprune_form form);

/* How a preset keeps its tensors. */
keep_how options_how(const options *o);

/* Passes of a step, on all ranks: --micro-batches, but at least one a rank. Samples of a pass, at
 * most. */
size_t options_passes(const options *o);
size_t options_pass(const options *o);

/* The precision to create a context with, possibly CLPRUNE_PRECISION_DEFAULT. */
clprune_precision options_precision(const options *o);

/* Bits of codes of GELU's derivative; bits of quantised tensors; columns that share a scale in
 * those. */
unsigned options_gelu_code_bits(const options *o);
unsigned options_quantised_bits(const options *o);
void options_set_quantised_bits(options *o, unsigned bits); /* 2, 4 or 8 */
unsigned options_quantised_group(const options *o);

/* What --indices says, and the position of a type in options_indices. */
clprune_index_type options_index_type(const options *o);
size_t options_index_choice(clprune_index_type type);

/* Writes a block shape as the command line has it: "1x16". */
void options_block_text(clprune_block block, char *text, size_t size);

/* Adds to a text in `size` bytes what fits. */
MESSAGE_PRINTF(3, 4)
void options_append(char *text, size_t size, const char *format, ...);

extern const char *const options_normalise[];    /* by dataset_normalise */
extern const char *const options_norms[];        /* by clprune_norm */
extern const char *const options_criteria[];     /* by clprune_criterion */
extern const char *const options_centres[];      /* by clprune_centre */
extern const char *const options_values[];       /* by clprune_value_type */
extern const char *const options_indices[];      /* see options_index_type */
extern const char *const options_roundings[];    /* by clprune_rounding */
extern const char *const options_rotate[];       /* no, yes */
extern const char *const options_plan_devices[]; /* own, h100, h200, a100, rtx4090 */
extern const char *const options_stores[];       /* fp32, bf16 */
extern const char *const options_base_bits[];    /* 32, 16, 8, 4, nf4 */
const char *const *options_optimizers(void);     /* by clprune_optimizer_describe */
extern const char *const options_schedules[];    /* by options_schedule */

/* The views of a test image, and how images are moved in an epoch. */
size_t options_views_count(const options *o);
augment_options options_augment(const options *o, uint64_t epoch);

#endif
