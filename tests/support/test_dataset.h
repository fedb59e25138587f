/* What the tests of the trainer's data share. */
#ifndef CLPRUNE_TEST_DATASET_H
#define CLPRUNE_TEST_DATASET_H

#include <sys/stat.h>

#include "support/test.h"
#include "support/test_fault.h"
#include "trainer/data/dataset.h"

/* Of CIFAR. */
enum { PIXELS = 3072, SIDE = 32 };

static inline void assert_near(double got, double expected, double tolerance, const char *what)
{
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s: got %.9g, expected %.9g +- %.3g", what, got, expected, tolerance);
}

TEST_UNDO(test_dataset_close, dataset_close(what))

/* Opens a set, which ends with the case, or before with test_end(data). */
static inline dataset *open_well(const char *source, const dataset_options *options)
{
    dataset *data = NULL;
    TEST_GOOD(dataset_open(source, options, &data, &f));
    assert_non_null(data);
    test_later(test_dataset_close, NULL, data);
    return data;
}

/* Opening must fail so, and the message, which is returned, must have both of the given parts. */
static inline const char *expect_failure(const char *source, const dataset_options *options,
    int code, const char *part1, const char *part2)
{
    fault f = {0};
    dataset *data = (dataset *)(uintptr_t)8;
    const bool opened = dataset_open(source, options, &data, &f);
    const char *said = test_text("%s", f.text);
    assert_null(data);
    test_says(said, part1);
    test_refused(opened, &f, code, part2);
    return said;
}

/* Reads images, which must succeed. */
static inline void read_batch(const dataset *data, dataset_split split, const uint32_t *indices,
    size_t count, const augment_options *augment, uint8_t *images, int32_t *labels)
{
    TEST_GOOD(dataset_batch(data, split, indices, count, augment, images, labels, &f));
}

/* Reading must fail so, with this part in the message, which is returned. */
static inline const char *refuse_batch(const dataset *data, dataset_split split,
    const uint32_t *indices, size_t count, uint8_t *images, int32_t *labels, int code,
    const char *part)
{
    fault f = {0};
    const bool read = dataset_batch(data, split, indices, count, NULL, images, labels, &f);
    const char *said = test_text("%s", f.text);
    test_refused(read, &f, code, part);
    return said;
}

/* Writes an IDX file: `magic`, its sizes, `bytes` bytes of data. */
static inline void put_idx(const char *folder, const char *name, uint32_t magic, unsigned sizes,
    const uint32_t *size, const uint8_t *data, size_t bytes)
{
    uint8_t *file = test_alloc(4 + 4 * sizes + bytes);
    for (unsigned i = 0; i <= sizes; i++) {
        const uint32_t word = i == 0 ? magic : size[i - 1];
        for (unsigned k = 0; k < 4; k++)
            file[4 * i + k] = (uint8_t)(word >> (24 - 8 * k));
    }
    memcpy(file + 4 + 4 * sizes, data, bytes);
    test_file_write(test_text("%s/%s", folder, name), file, 4 + 4 * sizes + bytes);
}

/* Makes a folder in another one. */
static inline const char *make_folder_in(const char *folder, const char *name)
{
    const char *path = test_text("%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

/* A list's case with the name of its function. */
#define ADD(list, run) test_add(list, run, NULL, #run)

#endif
