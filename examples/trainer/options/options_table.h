/* options_table.h: private to options*.c. One row per option; parsing, help and checkpoints all
 * read it. */
#ifndef TRAINER_OPTIONS_TABLE_H
#define TRAINER_OPTIONS_TABLE_H

#include "trainer/options/options.h"

typedef enum option_kind {
    OPTION_FLAG,   /* bool, no value */
    OPTION_TEXT,   /* const char * */
    OPTION_CHOICE, /* size_t, a position in `choices` */
    OPTION_COUNT,  /* uint64_t in [low, high] */
    OPTION_BYTES,  /* uint64_t in [low, high], with a suffix K, M or G if that is shorter */
    OPTION_REAL,   /* double in [low, high] */
    OPTION_BLOCK   /* clprune_block */
} option_kind;

/* What a resumed run does with an option. */
typedef enum option_memory {
    OPTION_PROCESS, /* not in the checkpoint, nor in the summary: it changes no result */
    OPTION_FORGET,  /* not in the checkpoint */
    OPTION_TAKE,    /* taken from the checkpoint unless given */
    OPTION_CHANGE,  /* likewise; a line says that another value was given */
    OPTION_MATCH    /* taken from the checkpoint; another value is an error */
} option_memory;

/* What an option needs to have an effect. */
typedef enum option_needs {
    NEEDS_NOTHING,
    NEEDS_PRUNING,         /* a preset that prunes */
    NEEDS_PRUNING_OR_FILE, /* such a preset, or a keep file */
    NEEDS_CODES,           /* a preset that keeps codes */
    NEEDS_QUANTISING_OR_FILE,
    NEEDS_POOLING_OR_FILE
} option_needs;

/* Which programs have an option. */
typedef enum option_samples {
    OF_ALL,
    OF_IMAGES = 1,
    OF_TEXTS = 2, /* tokens with a label each */
    OF_SENTENCES = 4,
    OF_TOKENS = OF_TEXTS | OF_SENTENCES
} option_samples;

/* Whether the ranks of a run may have other values. */
typedef enum option_ranks {
    RANKS_AGREE, /* no */
    RANKS_PLACE, /* yes, of a file that has the same content; all have one, or none has */
    RANKS_OWN    /* yes: what is read, written or shown, or rank 0 alone takes it */
} option_ranks;

#define OPTIONS_OPTIMIZER "adamw" /* the default, to which models' own defaults belong */

struct option_row {
    const char *name;
    option_kind kind;
    option_memory memory;
    size_t offset;              /* of the field in options */
    double low, high;           /* COUNT, BYTES, REAL; both included */
    const char *const *choices; /* CHOICE; ends with NULL */
    const char *value;          /* the name of the value in --help; NULL for FLAG */
    const char *help;
    option_needs needs;
    option_samples samples; /* of the program's model */
    option_ranks ranks;
};

/* The options of a program: those of all models, with the model's own among the first. */
size_t option_rows_count(const trainer_model *model);
option_row option_row_at(const trainer_model *model, size_t index);

/* The index of an option; option_rows_count where there is none. The name, without dashes, has
 * `length` bytes. */
size_t option_index(const trainer_model *model, const char *name, size_t length);

/* Whether an option with these needs has an effect in a preset; whether a keep file can give it
 * one. */
bool option_preset_fits(size_t preset, option_needs needs);
bool option_takes_file(option_needs needs);

/* Writes what the option needs: "--activations paper or compact, or --keep-file". */
void option_needed(option_needs needs, char *text, size_t size);

/* The model's own default of an option; NULL: it has the trainer's. */
const char *option_own_default(const trainer_model *model, const char *name);

/* What --help says of an option. */
void option_help(const trainer_model *model, const option_row *row, char *text, size_t size);

/* Sets the field of a row from text. */
bool option_set(const option_row *row, const char *text, options *o, fault *f);

/* Whether a row's field has a value: not OPTIONS_UNSET, not NULL, no 0 below the row's `low`. */
bool option_is_set(const option_row *row, const options *o);

/* Writes the value of a row's field, which is set, so that option_set reads the same again. */
void option_print(const option_row *row, const options *o, char *text, size_t size);

#endif
