/*
 * dataset_source.h: private to dataset*.c. What a source of images (CIFAR files, the generator)
 * hands to dataset.c, which does everything that is the same for all of them.
 */
#ifndef TRAINER_DATASET_SOURCE_H
#define TRAINER_DATASET_SOURCE_H

#include "dataset.h"

#if defined(__GNUC__)
#define DATASET_PRINTF(string, first) __attribute__((format(printf, string, first)))
#else
#define DATASET_PRINTF(string, first)
#endif

typedef struct dataset_source {
    const char *name;
    uint32_t classes;
    uint32_t image_size;
    uint32_t count[2]; /* by dataset_split */
    double mean[DATASET_CHANNELS];
    double std[DATASET_CHANNELS];

    void *state; /* the source's own; freed by destroy */
    /* Writes image `index` of the split as (3, S, S) bytes; returns its label. Index in range. */
    int32_t (*read)(const void *state, dataset_split split, uint32_t index, uint8_t *pixels);
    void (*destroy)(void *state);
} dataset_source;

/* Both fill *source, or fail and leave nothing to free. */
dataset_status dataset_cifar(const char *dir, const dataset_options *options,
    dataset_source *source, char *err, size_t err_size);
dataset_status dataset_generated(
    const dataset_options *options, dataset_source *source, char *err, size_t err_size);

/* Writes the message and returns status, so that a failure is one statement. */
DATASET_PRINTF(4, 5)
dataset_status dataset_fail(
    dataset_status status, char *err, size_t err_size, const char *format, ...);

#endif
