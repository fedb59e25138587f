/*
 * trainer_model.h: a model as a program gives it to the trainer: its layers, which are a
 * clprune_net, and tables. A program fills in a trainer_model and passes it to program_main
 * (program.h); net_model.h makes nets of it.
 */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <clprune/clprune.h>

#include "trainer/data/rng.h"

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

/* How GGUF files of one architecture (general.architecture) name a model's tensors. A row has two
 * beginnings of names, in the file and of the model; a star stands for a number. The first row that
 * fits counts. pairs: tensors whose rows are heads with the pairs that rotate side by side, and the
 * key with the number of heads, for which the first row's key stands in; NULL: none. Both end with
 * NULL. */
typedef struct trainer_gguf {
    const char *architecture;
    const char *const (*names)[2], *const (*pairs)[2];
} trainer_gguf;

typedef struct trainer_model {
    const char *program;         /* "NAME-train": for --version, messages */
    const char *about;           /* for --help: what it trains, whole lines */
    const char *const *archs;    /* the choices of --arch; ends with NULL */
    size_t arch;                 /* the default one */
    const trainer_extra *extras; /* (extras_count), at most TRAINER_EXTRAS */
    size_t extras_count;
    clprune_centre centre; /* the default of --centre where blocks are sampled */
    bool tokens; /* samples are sequences of tokens, with a label each; else images with one label,
                    or pixels */
    bool pixels; /* with images: each pixel has a label */
    bool labelled; /* with tokens: a sequence has a length, and one label below sizes.labels */
    /* Pairs: an option and its default, where that is not the trainer's; ends with NULL. Of "lr"
     * and "weight-decay": adamw's. NULL: none. */
    const char *const (*defaults)[2];

    /* Fills in the sizes that are 0, and context. NULL, or one phrase that says what is wrong. */
    const char *(*settle)(trainer_sizes *sizes);
    /* Adds the layers of a model of these settled sizes, the loss included. */
    void (*build)(const trainer_sizes *sizes, clprune_net *net);
    /* An initial value of a parameter, described by its weight. */
    double (*draw)(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight);
    /* Changes the initial values of a parameter, in the order of its matrix, by the first training
     * images, (count, 3, image, image), normalised. NULL: they stay. */
    void (*fit)(const trainer_sizes *sizes, const clprune_net_weight *weight, size_t count,
        const float *images, float *values);

    /* How files of other programs have a parameter: pieces[0] is its name, shape and matrix, to be
     * changed. Returns the number of pieces, 1 to TRAINER_PIECES. NULL: as it is. */
    size_t (*in_files)(const trainer_sizes *sizes, trainer_weight *pieces);
    /* Pairs: a part of a name, and that part in other programs; ends with NULL. NULL: none. */
    const char *const (*renames)[2];
    const trainer_gguf *ggufs; /* ends with an empty one; NULL: no GGUF files */
    /* Patterns of tensors in files that the model makes itself, such as masks; ends with NULL.
     * NULL: none. */
    const char *const *buffers;
} trainer_model;

enum { TRAINER_PIECES = 3 };

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

#endif
