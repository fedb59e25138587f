/* What the tests of the trainer's data share. */
#ifndef CLPRUNE_TEST_DATASET_H
#define CLPRUNE_TEST_DATASET_H

#include "support/test.h"
#include "trainer/data/dataset.h"

/* Of CIFAR. */
enum { PIXELS = 3072, SIDE = 32 };

static inline void assert_near(double got, double expected, double tolerance, const char *what)
{
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s: got %.9g, expected %.9g +- %.3g", what, got, expected, tolerance);
}

static inline void test_dataset_close(void *of, void *data)
{
    (void)of;
    dataset_close(data);
}

/* Opens a set, which ends with the case, or before with test_end(data). */
static inline dataset *open_well(const char *source, const dataset_options *options)
{
    char err[4096] = "old";
    dataset *data = NULL;
    const dataset_status status = dataset_open(source, options, &data, err, sizeof err);
    if (status != DATASET_OK)
        fail_msg("opening %s failed: %s", source, err);
    assert_string_equal(err, "");
    assert_non_null(data);
    test_later(test_dataset_close, NULL, data);
    return data;
}

/* Opening must fail so, and the message, which is returned, must have both of the given parts. */
static inline const char *expect_failure(const char *source, const dataset_options *options,
    dataset_status status, const char *part1, const char *part2)
{
    char err[4096] = "";
    dataset *data = (dataset *)(uintptr_t)8;
    const dataset_status got = dataset_open(source, options, &data, err, sizeof err);
    if (got != status)
        fail_msg("opening %s gave status %d, expected %d; message: %s", source, (int)got,
            (int)status, err);
    assert_null(data);
    if (strstr(err, part1) == NULL || strstr(err, part2) == NULL || strchr(err, '\n') != NULL)
        fail_msg("message should be one line with '%s' and '%s': %s", part1, part2, err);
    return test_text("%s", err);
}

/* Reads images, which must succeed. */
static inline void read_batch(const dataset *data, dataset_split split, const uint32_t *indices,
    size_t count, const augment_options *augment, uint8_t *images, int32_t *labels)
{
    char err[4096] = "old";
    if (dataset_batch(data, split, indices, count, augment, images, labels, err, sizeof err) !=
        DATASET_OK)
        fail_msg("reading %zu images: %s", count, err);
    assert_string_equal(err, "");
}

/* Reading must fail so, with this part in the message, which is returned. */
static inline const char *refuse_batch(const dataset *data, dataset_split split,
    const uint32_t *indices, size_t count, uint8_t *images, int32_t *labels, dataset_status status,
    const char *part)
{
    char err[8192] = "";
    const dataset_status got =
        dataset_batch(data, split, indices, count, NULL, images, labels, err, sizeof err);
    if (got != status || strstr(err, part) == NULL)
        fail_msg("reading gave status %d, expected %d; message: '%s', expected in it: '%s'",
            (int)got, (int)status, err, part);
    return test_text("%s", err);
}

/* A list's case with the name of its function. */
#define ADD(list, run) test_add(list, run, NULL, #run)

#endif
