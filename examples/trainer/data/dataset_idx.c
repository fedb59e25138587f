/*
 * dataset_idx.c: grey images in IDX files, as MNIST, Fashion-MNIST, KMNIST and EMNIST have them
 * (http://yann.lecun.com/exdb/mnist, "The IDX file format").
 *
 *     train-images-idx3-ubyte   uint32 0x803, count, rows, columns (big endian);
 *                               count * rows * columns bytes
 *     train-labels-idx1-ubyte   uint32 0x801, count; count bytes
 *     t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte    the same for the test split
 *
 * Both files of a split are read whole and checked, so that read_image can trust them. A grey value
 * becomes all three colours.
 */
#include "trainer/data/dataset_source.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* access */

#include "trainer/data/file_kind.h"
#include "trainer/data/fnv.h"
#include "trainer/files/plain_file.h"

enum { IMAGES = 0x803, LABELS = 0x801, SIZES = 4, MOST_SIDE = 1024 };

/* The folders below DIR that are searched: DIR itself, then where torchvision unpacks. */
static const char *const folders[] = {
    "", "MNIST/raw/", "FashionMNIST/raw/", "KMNIST/raw/", "EMNIST/raw/"};
enum { FOLDERS = sizeof folders / sizeof *folders };

/* By split; some archives have a dot in place of the second dash. */
static const char *const images[2][2] = {{"train-images-idx3-ubyte", "train-images.idx3-ubyte"},
    {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"}};
static const char *const labels[2][2] = {{"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"},
    {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"}};

typedef struct idx {
    uint32_t side;
    uint8_t *pixels[2], *labels[2]; /* by split */
} idx;

/* The path of the first name that is there, else of the first one. */
static char *find(const char *dir, const char *folder, const char *const names[2])
{
    for (int i = 0; i < 2; ++i) {
        char *path = path_join(dir, folder, names[i]);
        if (path == NULL || access(path, F_OK) == 0)
            return path;
        free(path);
    }
    return path_join(dir, folder, names[0]);
}

static bool has_any_file(dataset_search *search, const char *folder)
{
    for (int i = 0; i < 4; ++i)
        if (dataset_search_file(search, path_join(search->dir, folder, images[i / 2][i % 2])) ||
            dataset_search_file(search, path_join(search->dir, folder, labels[i / 2][i % 2])))
            return true;
    return false;
}

bool dataset_idx_found(dataset_search *search)
{
    for (size_t i = 0; i < FOLDERS; ++i)
        if (has_any_file(search, folders[i]))
            return true;
    return false;
}

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Reads a whole file: `magic`, then its `sizes` sizes. */
static bool read_file(const char *path, uint32_t magic, unsigned sizes, uint32_t size[SIZES],
    uint8_t **data, fault *f)
{
    const char *why;
    uint8_t header[4 * (1 + SIZES)];
    uint64_t bytes = 1, file_bytes;
    bool good = true;
    FILE *stream = plain_file_open(path, &file_bytes, &why);
    if (stream == NULL)
        return fault_set(f, CODE_DATA, "%s: %s", path, why);
    const size_t length = 4 * (1 + (size_t)sizes);
    if (fread(header, 1, length, stream) != length) {
        good = fault_set(f, CODE_DATA, "%s: shorter than its header", path);
        goto done;
    }
    if (big_endian(header) != magic) {
        const uint32_t found = big_endian(header);
        const char *what = found == LABELS   ? ": these are labels"
                           : found == IMAGES ? ": these are images"
                                             : "";
        good = (what[0] != '\0' ||
                   file_kind_check(path, fileno(stream), FILE_KIND_OF_TEXT, "an IDX file", f)) &&
               fault_set(f, CODE_DATA, "%s: begins with %08lx, expected %08lx%s", path,
                   (unsigned long)found, (unsigned long)magic, what);
        goto done;
    }
    for (unsigned i = 0; i < sizes; ++i) {
        size[i] = big_endian(header + 4 * (1 + i));
        if (size[i] == 0 || size[i] > INT32_MAX || bytes > INT64_MAX / size[i]) {
            good =
                fault_set(f, CODE_DATA, "%s: size %lu in its header", path, (unsigned long)size[i]);
            goto done;
        }
        bytes *= size[i];
    }
    if (file_bytes != length + bytes) {
        good = fault_set(f, CODE_DATA, "%s: has %llu bytes, its header asks for %llu", path,
            (unsigned long long)file_bytes, (unsigned long long)(length + bytes));
        goto done;
    }
    *data = bytes <= SIZE_MAX ? malloc((size_t)bytes) : NULL;
    if (*data == NULL)
        good = dataset_no_memory(f, path);
    else if (fread(*data, 1, (size_t)bytes, stream) != bytes)
        good = fault_set(f, CODE_DATA, "%s: reading it failed", path);
done:
    (void)fclose(stream);
    return good;
}

/* Reads both files of a split; *classes grows to what its labels need. */
static bool read_split(const char *dir, const char *folder, int split, idx *set,
    dataset_source *source, uint32_t *classes, fault *f)
{
    uint32_t shape[SIZES] = {0}, length[SIZES] = {0};
    char *image_path = find(dir, folder, images[split]),
         *label_path = find(dir, folder, labels[split]);
    bool good = true;
    if (image_path == NULL || label_path == NULL) {
        good = dataset_no_memory(f, dir);
        goto done;
    }
    good = read_file(image_path, IMAGES, 3, shape, &set->pixels[split], f);
    if (good)
        good = read_file(label_path, LABELS, 1, length, &set->labels[split], f);
    if (!good)
        goto done;
    if (length[0] != shape[0])
        good = fault_set(f, CODE_DATA, "%s: %lu labels for %lu images", label_path,
            (unsigned long)length[0], (unsigned long)shape[0]);
    else if (shape[1] != shape[2] || shape[1] > MOST_SIDE)
        good = fault_set(f, CODE_DATA, "%s: images are %lux%lu, expected squares of at most %dx%d",
            image_path, (unsigned long)shape[1], (unsigned long)shape[2], MOST_SIDE, MOST_SIDE);
    else if (set->side != 0 && set->side != shape[1])
        good = fault_set(f, CODE_DATA, "%s: images are %lux%lu, those of the other split %lux%lu",
            image_path, (unsigned long)shape[1], (unsigned long)shape[1], (unsigned long)set->side,
            (unsigned long)set->side);
    set->side = shape[1];
    source->count[split] = shape[0];
    (void)snprintf(source->tests, sizeof source->tests, "%s", image_path); /* of the last split */
    for (uint32_t i = 0; good && i < length[0]; ++i)
        if (set->labels[split][i] >= *classes)
            *classes = set->labels[split][i] + 1u;
done:
    free(image_path);
    free(label_path);
    return good;
}

/* Mean and standard deviation of all training pixels / 255; a set of one grey keeps its scale. The
 * checksum tells MNIST from Fashion-MNIST. */
static void measure(const idx *set, uint32_t count, dataset_source *source)
{
    const uint64_t bytes = (uint64_t)count * set->side * set->side;
    uint64_t sum = 0, squares = 0;
    for (uint64_t i = 0; i < bytes; ++i) {
        const uint64_t v = set->pixels[DATASET_TRAIN][i];
        sum += v;
        squares += v * v;
    }
    source->checksum = fnv1a(FNV_START, set->pixels[DATASET_TRAIN], bytes);
    source->checksum = fnv1a(source->checksum, set->labels[DATASET_TRAIN], count);
    const double mean = (double)sum / (double)bytes / 255;
    const double variance = (double)squares / (double)bytes / (255.0 * 255) - mean * mean;
    for (int c = 0; c < DATASET_CHANNELS; ++c) {
        source->mean[c] = mean;
        source->std[c] = variance > 1e-12 ? sqrt(variance) : 1;
    }
}

static int32_t read_image(const void *state, dataset_split split, uint32_t index, uint8_t *pixels)
{
    const idx *set = state;
    const size_t plane = (size_t)set->side * set->side;
    for (size_t c = 0; c < DATASET_CHANNELS; ++c)
        memcpy(pixels + c * plane, set->pixels[split] + index * plane, plane);
    return set->labels[split][index];
}

static void destroy(void *state)
{
    idx *set = state;
    for (int split = 0; split < 2; ++split) {
        free(set->pixels[split]);
        free(set->labels[split]);
    }
    free(set);
}

bool dataset_idx(const char *dir, const dataset_options *options, dataset_source *source, fault *f)
{
    size_t place = 0, places = 0;
    uint32_t classes = 0;
    const uint32_t limit[2] = {options->train_limit, options->test_limit};
    dataset_search search = {dir, 0};
    for (size_t i = 0; i < FOLDERS; ++i)
        if (has_any_file(&search, folders[i])) {
            place = i;
            ++places;
        }
    if (!dataset_search_check(&search, f))
        return false;
    if (places != 1)
        return fault_set(f, CODE_USAGE,
            "%s: holds %s set of IDX files; name the folder of the one you want", dir,
            places == 0 ? "no" : "more than one");
    idx *set = calloc(1, sizeof *set);
    if (set == NULL)
        return dataset_no_memory(f, dir);
    bool good = true;
    for (int split = 0; split < 2 && good; ++split)
        good = read_split(dir, folders[place], split, set, source, &classes, f);
    if (good && options->image_size != 0 && options->image_size != set->side)
        good = fault_set(f, CODE_USAGE, "%s: its images are %lux%lu, not %lux%lu", dir,
            (unsigned long)set->side, (unsigned long)set->side, (unsigned long)options->image_size,
            (unsigned long)options->image_size);
    if (good && options->classes != 0 && options->classes < classes)
        good = fault_set(f, CODE_USAGE, "%s: its labels have %lu classes, not %lu", dir,
            (unsigned long)classes, (unsigned long)options->classes);
    if (!good) {
        destroy(set);
        return good;
    }
    measure(set, source->count[DATASET_TRAIN], source);
    source->classes = options->classes != 0 ? options->classes : classes < 2 ? 2 : classes;
    for (int split = 0; split < 2; ++split) {
        bool has[256] = {false};
        for (uint32_t i = 0; i < source->count[split]; ++i)
            has[set->labels[split][i]] = true;
        dataset_tell_empty(dir, options, (dataset_split)split,
            options->classes != 0 ? options->classes : classes, has, 256);
        if (limit[split] != 0 && limit[split] < source->count[split])
            source->count[split] = limit[split];
    }
    source->name = "IDX";
    source->image_size = set->side;
    source->keeps_sides = true;
    source->state = set;
    source->read = read_image;
    source->destroy = destroy;
    return true;
}
