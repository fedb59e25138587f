/*
 * dataset_source.h: private to dataset*.c: the interface between a source (CIFAR, IDX, folders,
 * tokens, generated) and dataset.c, the roof over all of them; dataset_source.c is below the
 * sources.
 */
#ifndef TRAINER_DATASET_SOURCE_H
#define TRAINER_DATASET_SOURCE_H

#include "trainer/base/fault.h"
#include "trainer/data/dataset.h"

typedef struct dataset_source {
    const char *name;
    uint32_t classes;
    uint32_t image_size;
    bool pixels;              /* of images: each pixel has a label */
    size_t context;           /* of tokens: of a sequence; 0: samples are images */
    bool apart;               /* of tokens: with starts */
    bool masks;               /* of tokens: labels for training may be CLPRUNE_IGNORED */
    bool sentences;           /* of tokens: with a length and one label */
    uint32_t count[2];        /* by dataset_split */
    char tests[MESSAGE_SIZE]; /* see dataset_tests */
    uint64_t checksum;        /* see dataset_checksum */
    uint64_t sizes;           /* see dataset_sizes */
    double mean[DATASET_CHANNELS];
    double std[DATASET_CHANNELS];

    void *state;      /* the source's own; freed by destroy */
    bool keeps_sides; /* never mirrored: the mirror image has another class or none (digits) */
    /* Writes image `index` of the split as (3, S, S) bytes; returns its label. Index in range.
     * Several threads call it at once. */
    int32_t (*read)(const void *state, dataset_split split, uint32_t index, uint8_t *pixels);
    /* Instead of read, for images in files, labels of pixels and tokens: crops and mirrors, or
     * moves, by itself (augment NULL: not), may fail (CODE_DATA, CODE_MEMORY); of images it is
     * called by several threads at once. inputs, labels: of the sample, see dataset_sample. */
    bool (*fetch)(const void *state, dataset_split split, uint32_t index,
        const augment_options *augment, uint8_t *inputs, int32_t *labels, fault *f);
    void (*destroy)(void *state);
} dataset_source;

/* Sets mean and std to those of ImageNet, as torchvision has them. */
void dataset_by_imagenet(dataset_source *source);

/* A search for files in `dir`. error: 0, or the errno of the first question without an answer; what
 * was found, or was not, is worth nothing then. */
typedef struct dataset_search {
    const char *dir;
    int error;
} dataset_search;

/* Whether a file of any kind is there. Frees `path`; NULL means that memory is out. */
bool dataset_search_file(dataset_search *search, char *path);
/* A question without the answer yes: remembers `error`, an errno, unless it means no. */
void dataset_search_failed(dataset_search *search, int error);
/* Fails after a search with an error. */
bool dataset_search_check(const dataset_search *search, fault *f);

/* Whether search->dir holds such a set. */
bool dataset_cifar_found(dataset_search *search);
bool dataset_idx_found(dataset_search *search);
bool dataset_folder_found(dataset_search *search);

/* The fault where no set was found: says what is missing. Returns false. */
bool dataset_missing(const char *dir, fault *f);

/* All fill *source, which is zero, or fail and leave nothing to free. */
bool dataset_cifar(
    const char *dir, const dataset_options *options, dataset_source *source, fault *f);
bool dataset_idx(const char *dir, const dataset_options *options, dataset_source *source, fault *f);
bool dataset_folder(
    const char *dir, const dataset_options *options, dataset_source *source, fault *f);
bool dataset_generated(const dataset_options *options, dataset_source *source, fault *f);
/* path: a file or folder, or "generated". */
bool dataset_tokens(
    const char *path, const dataset_options *options, dataset_source *source, fault *f);
bool dataset_sentences(
    const char *path, const dataset_options *options, dataset_source *source, fault *f);

/* Says which of `classes` classes no sample of the split has. has: for the first `known` of them;
 * the others have none. */
void dataset_tell_empty(const char *path, const dataset_options *options, dataset_split split,
    uint32_t classes, const bool *has, uint32_t known);

/* Records CODE_MEMORY, "path: out of memory"; returns false. */
bool dataset_no_memory(fault *f, const char *path);

#endif
