#include "dataset.h"

#include "dataset_source.h"
#include "rng.h"

#include <stdarg.h>
#include <stdio.h>  /* vsnprintf */
#include <stdlib.h> /* malloc, free */
#include <string.h> /* strcmp */

struct dataset {
    dataset_source source;
    float level[DATASET_CHANNELS * 256]; /* (3, 256) the normalised value of each byte */
};

dataset_status dataset_fail(
    dataset_status status, char *err, size_t err_size, const char *format, ...)
{
    if (err != NULL && err_size > 0) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err, err_size, format, args);
        va_end(args);
    }
    return status;
}

static void clear_message(char *err, size_t err_size)
{
    if (err != NULL && err_size > 0)
        err[0] = '\0';
}

static void fill_levels(dataset *data)
{
    for (int c = 0; c < DATASET_CHANNELS; ++c)
        for (int v = 0; v < 256; ++v)
            data->level[c * 256 + v] =
                (float)((v / 255.0 - data->source.mean[c]) / data->source.std[c]);
}

dataset_status dataset_open(
    const char *source, const dataset_options *options, dataset **out, char *err, size_t err_size)
{
    static const dataset_options defaults = {0};
    dataset *data = NULL;
    dataset_status status;

    clear_message(err, err_size);
    if (out == NULL)
        return dataset_fail(DATASET_BAD_ARGUMENT, err, err_size, "out is NULL");
    *out = NULL;
    if (source == NULL || source[0] == '\0')
        return dataset_fail(DATASET_BAD_ARGUMENT, err, err_size, "no data set named");
    if (options == NULL)
        options = &defaults;
    if (options->train_limit > INT32_MAX || options->test_limit > INT32_MAX)
        return dataset_fail(
            DATASET_BAD_ARGUMENT, err, err_size, "%s: limits end at 2147483647", source);

    data = malloc(sizeof *data);
    if (data == NULL)
        return dataset_fail(DATASET_NO_MEMORY, err, err_size, "%s: out of memory", source);
    if (strcmp(source, "generated") == 0)
        status = dataset_generated(options, &data->source, err, err_size);
    else
        status = dataset_cifar(source, options, &data->source, err, err_size);
    if (status != DATASET_OK) {
        free(data);
        return status;
    }
    fill_levels(data);
    *out = data;
    return DATASET_OK;
}

void dataset_close(dataset *data)
{
    if (data == NULL)
        return;
    data->source.destroy(data->source.state);
    free(data);
}

const char *dataset_name(const dataset *data)
{
    return data->source.name;
}

uint32_t dataset_classes(const dataset *data)
{
    return data->source.classes;
}

uint32_t dataset_image_size(const dataset *data)
{
    return data->source.image_size;
}

uint32_t dataset_count(const dataset *data, dataset_split split)
{
    return data->source.count[split == DATASET_TEST];
}

void dataset_normalisation(
    const dataset *data, float mean[DATASET_CHANNELS], float std[DATASET_CHANNELS])
{
    for (int c = 0; c < DATASET_CHANNELS; ++c) {
        mean[c] = (float)data->source.mean[c];
        std[c] = (float)data->source.std[c];
    }
}

dataset_status dataset_batch(const dataset *data, dataset_split split, const uint32_t *indices,
    size_t count, const augment_options *augment, float *images, int32_t *labels, char *err,
    size_t err_size)
{
    clear_message(err, err_size);
    if (data == NULL || (split != DATASET_TRAIN && split != DATASET_TEST))
        return dataset_fail(DATASET_BAD_ARGUMENT, err, err_size, "no such data set or split");
    if (count == 0)
        return DATASET_OK;
    if (indices == NULL || images == NULL || labels == NULL)
        return dataset_fail(
            DATASET_BAD_ARGUMENT, err, err_size, "%s: a buffer is NULL", data->source.name);
    for (size_t i = 0; i < count; ++i)
        if (indices[i] >= data->source.count[split])
            return dataset_fail(DATASET_BAD_ARGUMENT, err, err_size,
                "%s: index %lu, but the %s split has %lu images", data->source.name,
                (unsigned long)indices[i], split == DATASET_TRAIN ? "train" : "test",
                (unsigned long)data->source.count[split]);

    const uint32_t size = data->source.image_size;
    const size_t image_length = (size_t)DATASET_CHANNELS * size * size;
    uint8_t *pixels = malloc(image_length);
    if (pixels == NULL)
        return dataset_fail(
            DATASET_NO_MEMORY, err, err_size, "%s: out of memory", data->source.name);
    for (size_t i = 0; i < count; ++i) {
        const augment_move stay = {0, 0, false};
        const augment_move move = augment == NULL ? stay : augment_draw(augment, indices[i], size);
        labels[i] = data->source.read(data->source.state, split, indices[i], pixels);
        augment_apply(move, size, pixels, data->level, images + i * image_length);
    }
    free(pixels);
    return DATASET_OK;
}

/* Fisher and Yates, in the form of Durstenfeld. */
void dataset_shuffle(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *indices)
{
    rng r = rng_open(seed, RNG_SHUFFLE, epoch, 0);
    for (uint32_t i = 0; i < n; ++i)
        indices[i] = i;
    for (uint32_t left = n; left > 1; --left) {
        const uint32_t pick = rng_below(&r, left);
        const uint32_t last = indices[left - 1];
        indices[left - 1] = indices[pick];
        indices[pick] = last;
    }
}
