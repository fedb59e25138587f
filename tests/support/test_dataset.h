/* What the tests of the trainer's data share. */
#ifndef CLPRUNE_TEST_DATASET_H
#define CLPRUNE_TEST_DATASET_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/test_memory.h"
#include "trainer/data/dataset.h"

/* Of CIFAR. */
enum { PIXELS = 3072, SIDE = 32 };

static inline void assert_near(double got, double expected, double tolerance, const char *what)
{
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s: got %.9g, expected %.9g +- %.3g", what, got, expected, tolerance);
}

static inline dataset *open_well(const char *source, const dataset_options *options)
{
    char err[256] = "old";
    dataset *data = NULL;
    const dataset_status status = dataset_open(source, options, &data, err, sizeof err);
    if (status != DATASET_OK)
        fail_msg("opening %s failed: %s", source, err);
    assert_string_equal(err, "");
    assert_non_null(data);
    return data;
}

/* Opening must fail so, and the message must have all of the given parts. */
static inline void expect_failure(const char *source, const dataset_options *options,
    dataset_status status, const char *part1, const char *part2)
{
    char err[256] = "";
    dataset *data = (dataset *)(uintptr_t)8;
    const dataset_status got = dataset_open(source, options, &data, err, sizeof err);
    if (got != status)
        fail_msg("opening %s gave status %d, expected %d; message: %s", source, (int)got,
            (int)status, err);
    assert_null(data);
    if (strstr(err, part1) == NULL || strstr(err, part2) == NULL || strchr(err, '\n') != NULL)
        fail_msg("message should be one line with '%s' and '%s': %s", part1, part2, err);
}

#endif
