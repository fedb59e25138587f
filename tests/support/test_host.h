/* Host memory for matrices, with canaries behind it and between its rows. */
#ifndef CLPRUNE_TEST_HOST_H
#define CLPRUNE_TEST_HOST_H

#include "support/test.h"

#define TEST_HOST_CANARY 12345.0f

typedef struct test_host {
    float *whole, *at;
    size_t rows, cols, ld;
    size_t count; /* elements from `at` on, canaries included */
} test_host;

static inline bool test_host_is_canary(const test_host *h, size_t i)
{
    return h->rows == 0 || i % h->ld >= h->cols || i >= (h->rows - 1) * h->ld + h->cols;
}

static inline void test_host_end(void *of, void *what)
{
    const test_host *h = what;
    (void)of;
    for (size_t i = 0; i < h->count; i++)
        if (test_host_is_canary(h, i))
            assert_true(h->at[i] == TEST_HOST_CANARY);
    free(h->whole);
}

/* Zeros, or dense `values`, `shift` elements behind an aligned address. The end of the case, or
 * test_end(host), checks the canaries and frees the memory. */
static inline test_host *test_host_make(
    size_t rows, size_t cols, size_t ld, size_t shift, const float *values)
{
    test_host *h = test_alloc(sizeof *h);
    void *whole = NULL;
    *h = (test_host){.rows = rows, .cols = cols, .ld = ld, .count = rows * ld + 64};
    assert_int_equal(
        posix_memalign(&whole, CLPRUNE_WRAP_ALIGN, (shift + h->count) * sizeof(float)), 0);
    h->whole = whole;
    h->at = h->whole + shift;
    for (size_t i = 0; i < h->count; i++)
        h->at[i] = test_host_is_canary(h, i) ? TEST_HOST_CANARY
                   : values != NULL          ? values[i / ld * cols + i % ld]
                                             : 0;
    test_later(test_host_end, NULL, h);
    return h;
}

/* Fails unless the elements are `values`. */
static inline void test_host_check(const test_host *h, const float *values, const char *what)
{
    for (size_t r = 0; r < h->rows; r++)
        test_same_floats(what, 1, h->cols, h->at + r * h->ld, values + r * h->cols, "row %zu", r);
}

#endif
