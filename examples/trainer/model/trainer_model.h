/*
 * trainer_model.h: a model as the trainer sees it: one struct of functions and tables. A program
 * fills in a trainer_model and passes it to program_main (program.h).
 *
 * The data of a pass is a clprune_net_data (clprune/net.h): at most as many samples as the model
 * was created for, their images (3 x image x image bytes, normalised as they are read) or tokens
 * (context of them, below sizes.classes), the lengths of labelled sequences, labels, smoothing and
 * scale. Passes enqueue and return. All device memory is taken in create.
 */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <clprune/clprune.h>

#include "trainer/options/keep_list.h"

enum { TRAINER_EXTRAS = 4 };
#define TRAINER_NO_MEMORY "out of memory"

/* An option that only this model has: a whole number, such as --patch-size. Checkpoints and
 * summaries have it, too. */
typedef struct trainer_extra {
    const char *name; /* without dashes */
    const char *key;  /* in --summary-json */
    double low, high; /* both included */
    const char *help;
} trainer_extra;

/* An architecture with its sizes. */
typedef struct trainer_sizes {
    size_t arch;                    /* position in trainer_model.archs */
    size_t image;                   /* pixels per side; 0: the architecture's, or none */
    size_t classes;                 /* 0: the architecture's; of tokens: the vocabulary */
    uint64_t extra[TRAINER_EXTRAS]; /* values of the extras; 0: the architecture's */
    const char *folder;             /* of config.json, or a GGUF file; NULL: none */
    float dropout;                  /* in training, of models of tokens */
    const char *train;              /* patterns of parameters, with commas; NULL: all are trained */
    const char *lora;               /* R[:PATTERN]; NULL: no adapters */
    double lora_alpha;              /* 0: 2 R */
    double lora_dropout;            /* of what adapters read */
    bool rslora;                    /* alpha / sqrt(R) for alpha / R */
    clprune_value_type base;        /* of frozen weights (clprune_net_store_frozen) */
    /* filled in by settle */
    size_t context;        /* tokens of a sample; 0: samples are images */
    bool learned;          /* their positions are, so that none begins again within a sample */
    size_t labels;         /* of labelled sequences: their classes */
    const char *tables[2]; /* the weights of an embedding of tokens and of a head; NULL: none */
    uint64_t parameters;   /* elements */
    uint64_t trained;      /* of them, adapters included */
    uint64_t fixed; /* elements per sample that are kept dense beside its tensors (keep_list.h) */
} trainer_sizes;

/* State that is not trained, such as running statistics and frozen parameters: checkpoints have it.
 * Its name is unique among the model's states and shorter than 80 bytes. words: mat has words of
 * other types, to be copied bit by bit. */
typedef struct trainer_state {
    const char *name;
    clprune_mat mat;
    bool words;
} trainer_state;

/* A whole number, 0 or more, that the forward passes of training count: checkpoints have it, and
 * files of other programs (weights.h) as an I64 tensor of shape [] with the same name. Names are
 * unique among the model's counts. TRAINER_NO_COUNT: neither file has it, and passes leave it
 * alone. */
typedef struct trainer_count {
    char name[80];
    int64_t *value; /* on the host */
} trainer_count;

enum { TRAINER_NO_COUNT = -1 };

/* A parameter, rows of it, or a state in files of other programs (weights.h): its name and shape
 * there. heads: not 0 where the rows are the queries of so many heads, then their keys, then their
 * values, and a file has them head by head. image: not {0, 0} where the model has channels last,
 * see clprune_net_weight; else it is in the file's order. transposed: mat is the transposed matrix.
 * head: its first size is the number of classes. longer: a file may have more rows, of which the
 * first are taken. less: by so much its values in a file are less than the matrix's, but in GGUF
 * files. twin: the name of a weight that is tied to it, whose values in a file must be the same; or
 * "". lora_a, lora_b: those of an adapter: files get mat + lora_factor * lora_b lora_a; or absent.
 */
typedef struct trainer_weight {
    char name[80], twin[80];
    size_t rank, shape[4];
    clprune_mat mat;
    clprune_extent image;
    size_t heads;
    bool transposed, head, longer;
    clprune_mat lora_a, lora_b;
    float lora_factor, less;
} trainer_weight;

/* Who is told that a part of a pass begins, such as "forward blocks.3"; {0}: nobody. The text is
 * gone after the call. */
typedef struct trainer_watcher {
    void (*tell)(void *user, const char *part);
    void *user;
} trainer_watcher;

static inline void trainer_tell(const trainer_watcher *watcher, const char *part)
{
    if (watcher->tell != NULL)
        watcher->tell(watcher->user, part);
}

/* How GGUF files of one architecture (general.architecture) name a model's tensors. A row has two
 * beginnings of names, in the file and of the model; a star stands for a number. The first row that
 * fits counts. pairs: tensors whose rows are heads with the pairs that rotate side by side, and the
 * key with the number of heads, for which the first row's key stands in; NULL: none. Both end with
 * NULL. */
typedef struct trainer_gguf {
    const char *architecture;
    const char *const (*names)[2], *const (*pairs)[2];
} trainer_gguf;

typedef struct trainer_model trainer_model;
struct trainer_model {
    const char *program;         /* "NAME-train": for --version, messages */
    const char *about;           /* for --help: what it trains, whole lines */
    const char *const *archs;    /* the choices of --arch; ends with NULL */
    size_t arch;                 /* the default one */
    const trainer_extra *extras; /* (extras_count), at most TRAINER_EXTRAS */
    size_t extras_count;
    const keep_presets *presets;
    clprune_centre centre; /* the default of --centre where blocks are sampled */
    bool tokens; /* samples are sequences of tokens, with a label each; else images with one label,
                    or pixels */
    bool pixels; /* with images: each pixel has a label */
    bool labelled; /* with tokens: a sequence has a length, and one label below sizes.labels */
    /* Pairs: an option and its default, where that is not the trainer's; ends with NULL. Of "lr"
     * and "weight-decay": adamw's. NULL: none. */
    const char *const (*defaults)[2];

    const struct net_model_parts *net; /* of a model whose functions are net_model.h's */

    /* Fills in the sizes that are 0, and the last fields of *sizes. NULL if the sizes fit each
     * other, else TRAINER_NO_MEMORY, or one phrase that says what is wrong. */
    const char *(*settle)(const trainer_model *type, trainer_sizes *sizes);

    /* Adds to *list, which was {0}, the tensors of a model of settled sizes that is created so, for
     * the caller to close in any case; opens no device. NULL, or what is wrong, as settle. */
    const char *(*list)(const trainer_model *type, const trainer_sizes *sizes,
        const keep_choice *choice, size_t batch, keep_list *list);

    /* sizes are settled. *model is NULL on failure. Errors: INVALID_ARGUMENT,
     * OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY. */
    clprune_status (*create)(const trainer_model *type, clprune_context *context,
        const trainer_sizes *sizes, const keep_choice *choice, size_t batch, void **model);
    void (*destroy)(void *model); /* accepts NULL */

    /* Writes initial parameters and states: the same for the same seed on any device. given: NULL,
     * or of each weight of `weight` whether it has its value, which stays, as do states and counts
     * then. Blocking. Should write from the host, without kernels: the announced number of kernels
     * of the first step (progress.h) counts only passes and optimizer. */
    clprune_status (*init)(void *model, uint64_t seed, const bool *given);

    /* Parameters, *count of them, which the model owns: one order for one architecture. */
    clprune_param *(*params)(void *model, size_t *count);

    /* States likewise; NULL: the model has none. */
    const trainer_state *(*states)(void *model, size_t *count);

    /* Counts likewise. */
    const trainer_count *(*counts)(void *model, size_t *count);

    /* The weights of files of other programs, one by one: false past the last one. NULL: no
     * --import or --export. */
    bool (*weight)(void *model, size_t index, trainer_weight *weight);
    /* Pairs: a part of a name, and that part in other programs; ends with NULL. NULL: none. */
    const char *const (*renames)[2];
    const trainer_gguf *ggufs; /* ends with an empty one; NULL: no GGUF files */
    /* Patterns of tensors in files that the model makes itself, such as masks; ends with NULL.
     * NULL: none. */
    const char *const *buffers;

    /* The seed of everything random in the next forward pass. */
    void (*set_seed)(void *model, uint64_t seed);

    /* `training` keeps activations for one backward pass. */
    clprune_status (*forward)(void *model, const clprune_net_data *data, bool training);

    /* loss: batch x 1, one per sample; hit: batch x 1, 1 where the prediction is right; of tokens
     * the means over the sample. Needs the logits of forward. Once after each forward pass of
     * training. */
    clprune_status (*loss)(
        void *model, const clprune_net_data *data, clprune_mat loss, clprune_mat hit);

    /* Writes the gradient of data->scale * the sum of the losses to each parameter's grad, from
     * what forward and loss kept; the data must be the same as there. */
    clprune_status (*backward)(void *model, const clprune_net_data *data);

    /* Of tokens: the logits of token `row` of each sample, batch x classes, after a forward pass
     * without training. NULL: no --sample. */
    clprune_status (*logits)(void *model, size_t batch, size_t row, clprune_mat logits);

    /* Of tokens: a model with the weights of `of`, for `forward` without training, `logits` and
     * `destroy` alone, before or after that of `of`. A pass takes `rows` tokens of one sample, from
     * token data->first on, which follow those of earlier passes; if `of` is such a model itself,
     * those of its passes, and it goes on with this one's. NULL: no --sample. */
    clprune_status (*create_writer)(void *of, size_t rows, void **writer);

    /* clprune_net_on_grads; choice->drops_grads is its desc.drops_grads. NULL: none are told of,
     * and none dropped. */
    void (*on_grads)(
        void *model, clprune_status (*ready)(void *user, clprune_mat grads), void *user);

    /* clprune_net_visit_grads, of models with on_grads. */
    clprune_status (*visit_grads)(
        void *model, clprune_status (*visit)(void *user, clprune_mat part), void *user);

    /* clprune_net_on_statistics, of models with choice->shares_statistics. NULL: none share. */
    void (*on_statistics)(void *model, const clprune_net_statistics *statistics);

    /* Makes the passes tell `watcher` at the start of each part. */
    void (*watch)(void *model, trainer_watcher watcher);

    /* clprune_net_check_finite. NULL: no --check-finite. */
    void (*check_finite)(void *model, bool check);
};

/* Whether the loss is that of tokens, so that e to it is a perplexity. */
static inline bool trainer_predicts_tokens(const trainer_model *type)
{
    return type->tokens && !type->labelled;
}

/* What reports call samples, and what they count a second. */
typedef struct trainer_words {
    const char *samples; /* "images" or "sequences" */
    const char *speed;   /* "img/s" or "tokens/s" */
    const char *column;  /* of log.csv: "images_per_second" or "tokens_per_second" */
} trainer_words;
static inline trainer_words trainer_words_of(bool tokens)
{
    return tokens ? (trainer_words){"sequences", "tokens/s", "tokens_per_second"}
                  : (trainer_words){"images", "img/s", "images_per_second"};
}

/* States and counts of a model whose type may have none: then *count is 0. */
static inline const trainer_state *trainer_states(
    const trainer_model *type, void *model, size_t *count)
{
    *count = 0;
    return type->states == NULL ? NULL : type->states(model, count);
}
static inline const trainer_count *trainer_counts(
    const trainer_model *type, void *model, size_t *count)
{
    *count = 0;
    return type->counts == NULL ? NULL : type->counts(model, count);
}

/* Of the states, those that passes change: they come first, a mean and a variance for each count.
 */
static inline const trainer_state *trainer_statistics(
    const trainer_model *type, void *model, size_t *count)
{
    size_t states, counts;
    const trainer_state *state = trainer_states(type, model, &states);
    (void)trainer_counts(type, model, &counts);
    *count = 2 * counts < states ? 2 * counts : states;
    return state;
}

#endif
