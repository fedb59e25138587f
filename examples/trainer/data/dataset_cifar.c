/*
 * dataset_cifar.c: the binary versions of CIFAR-10 and CIFAR-100.
 *
 * The records stay in memory as the files have them, label bytes and all, so that a file is one
 * read. Sizes are checked before anything is read and labels after, so that read_image can trust
 * every record.
 */
#include "trainer/data/dataset_source.h"

#include <stdbool.h>
#include <stdio.h>  /* fread, snprintf */
#include <stdlib.h> /* malloc, free */
#include <string.h> /* memcpy */

#include "trainer/data/file_kind.h"
#include "trainer/data/fnv.h"
#include "trainer/files/plain_file.h"

enum { SIDE = 32, PIXELS = DATASET_CHANNELS * SIDE * SIDE, MAX_FILES = 5 };

/* One published set: its files and what a record looks like. */
typedef struct cifar_format {
    const char *name;
    const char *folder;              /* the folder that its archive unpacks to */
    const char *files[2][MAX_FILES]; /* by split; the list ends at NULL */
    uint32_t classes;
    size_t label_bytes; /* the last of them is the label used */
    double mean[DATASET_CHANNELS], std[DATASET_CHANNELS];
} cifar_format;

/*
 * mean and std are over all pixels / 255 of the training split. CIFAR-10: computed from the files,
 * std per channel over all pixels (some publish the mean of per-image stds instead, about 0.20).
 * CIFAR-100: as published in github.com/weiaicunzai/pytorch-cifar100, rounded to four digits.
 */
static const cifar_format formats[] = {
    {
        .name = "CIFAR-10",
        .folder = "cifar-10-batches-bin/",
        .files = {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                      "data_batch_5.bin"},
            {"test_batch.bin"}},
        .classes = 10,
        .label_bytes = 1,
        .mean = {0.4914, 0.4822, 0.4465},
        .std = {0.2470, 0.2435, 0.2616},
    },
    {
        .name = "CIFAR-100",
        .folder = "cifar-100-binary/",
        .files = {{"train.bin"}, {"test.bin"}},
        .classes = 100,
        .label_bytes = 2,
        .mean = {0.5071, 0.4865, 0.4409},
        .std = {0.2673, 0.2564, 0.2762},
    },
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

typedef struct cifar {
    size_t label_bytes;
    uint8_t *records[2]; /* by split: (count, label_bytes + PIXELS) */
} cifar;

/* Where a set was found. */
typedef struct cifar_place {
    const cifar_format *format;
    const char *dir, *folder; /* "", or the format's */
} cifar_place;

/* One file of the set is enough: the message can then name those that are missing. */
static bool has_any_file(dataset_search *search, cifar_place place)
{
    for (int split = 0; split < 2; ++split)
        for (int i = 0; i < MAX_FILES && place.format->files[split][i] != NULL; ++i)
            if (dataset_search_file(
                    search, path_join(place.dir, place.folder, place.format->files[split][i])))
                return true;
    return false;
}

/* The number of sets in a folder; *found is one of them. */
static int find_places(dataset_search *search, cifar_place *found)
{
    int places = 0;
    for (int f = 0; f < FORMATS; ++f) {
        for (int sub = 1; sub >= 0; --sub) {
            const cifar_place place = {&formats[f], search->dir, sub == 1 ? formats[f].folder : ""};
            if (has_any_file(search, place)) {
                *found = place;
                ++places;
            }
        }
    }
    return places;
}

bool dataset_cifar_found(dataset_search *search)
{
    cifar_place place;
    return find_places(search, &place) > 0;
}

/* Number of whole records in an open file of `bytes`. */
static bool count_records(
    const char *path, int descriptor, uint64_t bytes, size_t record, uint32_t *count, fault *f)
{
    if (bytes == 0)
        return fault_set(f, CODE_DATA, "%s: is empty", path);
    if (bytes % record != 0)
        return file_kind_check(path, descriptor, FILE_KIND_OF_TEXT, "CIFAR's binary version", f) &&
               fault_set(f, CODE_DATA,
                   "%s: truncated or of another format: %llu bytes are no multiple of the record's "
                   "%zu",
                   path, (unsigned long long)bytes, record);
    if (bytes / record > INT32_MAX)
        return fault_set(
            f, CODE_DATA, "%s: %llu bytes are too many", path, (unsigned long long)bytes);
    *count = (uint32_t)(bytes / record);
    return true;
}

static bool check_labels(
    const cifar_format *format, const uint8_t *records, uint32_t count, const char *path, fault *f)
{
    const size_t record = format->label_bytes + PIXELS;
    for (uint32_t i = 0; i < count; ++i) {
        const uint8_t label = records[i * record + format->label_bytes - 1];
        if (label >= format->classes)
            return fault_set(f, CODE_DATA, "%s: record %lu has label %u, but %s has %lu classes",
                path, (unsigned long)i, label, format->name, (unsigned long)format->classes);
    }
    return true;
}

/* Appends at most `wanted` records of one file to *records, which holds *count of them. */
static bool append_file(cifar_place place, const char *file, uint32_t wanted, uint8_t **records,
    uint32_t *count, fault *f)
{
    const size_t record = place.format->label_bytes + PIXELS;
    bool good;
    FILE *stream = NULL;
    const char *why;
    uint8_t *grown = NULL;
    uint32_t here = 0;
    uint64_t bytes;
    char *path = path_join(place.dir, place.folder, file);
    if (path == NULL) {
        good = dataset_no_memory(f, place.dir);
        goto done;
    }
    stream = plain_file_open(path, &bytes, &why);
    if (stream == NULL) {
        good = fault_set(f, CODE_DATA, "%s: %s", path, why);
        goto done;
    }
    good = count_records(path, fileno(stream), bytes, record, &here, f);
    if (!good)
        goto done;
    if (here > wanted)
        here = wanted;
    if ((uint64_t)*count + here <= SIZE_MAX / record)
        grown = realloc(*records, ((size_t)*count + here) * record);
    if (grown == NULL) {
        good = fault_set(
            f, CODE_MEMORY, "%s: out of memory for %lu images", path, (unsigned long)*count + here);
        goto done;
    }
    *records = grown;
    if (fread(grown + *count * record, record, here, stream) != here) {
        good = fault_set(f, CODE_DATA, "%s: reading it failed", path);
        goto done;
    }
    good = check_labels(place.format, grown + *count * record, here, path, f);
    if (good)
        *count += here;
done:
    if (stream != NULL)
        (void)fclose(stream);
    free(path);
    return good;
}

static bool read_split(cifar_place place, dataset_split split, uint32_t limit, uint8_t **records,
    uint32_t *count, fault *f)
{
    const uint32_t most = limit == 0 ? INT32_MAX : limit;
    bool good = true;
    *count = 0;
    for (int i = 0; i < MAX_FILES && good && *count < most; ++i)
        if (place.format->files[split][i] != NULL)
            good =
                append_file(place, place.format->files[split][i], most - *count, records, count, f);
    return good;
}

static int32_t read_image(const void *state, dataset_split split, uint32_t index, uint8_t *pixels)
{
    const cifar *set = state;
    const uint8_t *record = set->records[split] + index * (set->label_bytes + PIXELS);
    memcpy(pixels, record + set->label_bytes, PIXELS);
    return record[set->label_bytes - 1];
}

static void destroy(void *state)
{
    cifar *set = state;
    free(set->records[DATASET_TRAIN]);
    free(set->records[DATASET_TEST]);
    free(set);
}

bool dataset_cifar(
    const char *dir, const dataset_options *options, dataset_source *source, fault *f)
{
    cifar_place place = {0};
    dataset_search search = {dir, 0};
    const int places = find_places(&search, &place);
    if (!dataset_search_check(&search, f))
        return false;
    if (places > 1)
        return fault_set(f, CODE_USAGE,
            "%s: holds more than one set; name the subfolder of the one you want", dir);
    if (places == 0) /* of any kind: CIFAR is looked for last */
        return dataset_missing(dir, f);
    const cifar_format *format = place.format;
    if (options->image_size != 0 && options->image_size != SIDE)
        return fault_set(f, CODE_USAGE, "%s: %s images are 32x32, not %lux%lu", dir, format->name,
            (unsigned long)options->image_size, (unsigned long)options->image_size);
    if (options->classes != 0 && options->classes != format->classes)
        return fault_set(f, CODE_USAGE, "%s: %s has %lu classes, not %lu", dir, format->name,
            (unsigned long)format->classes, (unsigned long)options->classes);

    cifar *set = calloc(1, sizeof *set);
    if (set == NULL)
        return dataset_no_memory(f, dir);
    set->label_bytes = format->label_bytes;
    bool good = read_split(place, DATASET_TRAIN, options->train_limit, &set->records[DATASET_TRAIN],
        &source->count[DATASET_TRAIN], f);
    if (good)
        good = read_split(place, DATASET_TEST, options->test_limit, &set->records[DATASET_TEST],
            &source->count[DATASET_TEST], f);
    if (!good) {
        destroy(set);
        return good;
    }
    source->checksum = fnv1a(FNV_START, set->records[DATASET_TRAIN],
        source->count[DATASET_TRAIN] * (format->label_bytes + PIXELS));
    (void)snprintf(source->tests, sizeof source->tests, "%s/%s%s", dir, place.folder,
        format->files[DATASET_TEST][0]);
    source->name = format->name;
    source->classes = format->classes;
    source->image_size = SIDE;
    memcpy(source->mean, format->mean, sizeof source->mean);
    memcpy(source->std, format->std, sizeof source->std);
    source->state = set;
    source->read = read_image;
    source->destroy = destroy;
    return true;
}
