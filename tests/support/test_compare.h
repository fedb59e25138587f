/* Comparisons that fail a case with everything needed to understand the failure. */
#ifndef CLPRUNE_TEST_COMPARE_H
#define CLPRUNE_TEST_COMPARE_H

#include "support/test_device.h"

/* The error bound of a sum of K fp32 products: 2 * sqrt(K) * 2^-24 * sum |a||b|, plus one rounding
 * of the result. */
static inline double test_bound(size_t k, double sum_abs, double result)
{
    return 2 * sqrt((double)k) * 0x1p-24 * sum_abs + 0x1p-24 * fabs(result);
}

/* Fails unless |got - want| <= bound in every element of a rows x cols matrix; a NaN in `got` fails
 * unless `want` is NaN too. A bound that is not finite allows `want` alone. Prints the worst
 * element (largest error / bound), its indices and the parameters of the case. */
void test_close(const char *what, size_t rows, size_t cols, const float *got, const double *want,
    const double *bound, const char *parameters, ...) __attribute__((__format__(__printf__, 7, 8)));

/* Fails unless all bits are equal. */
void test_same_floats(const char *what, size_t rows, size_t cols, const float *got,
    const float *want, const char *parameters, ...) __attribute__((__format__(__printf__, 6, 7)));
void test_same_ints(const char *what, size_t count, const int32_t *got, const int32_t *want,
    const char *parameters, ...) __attribute__((__format__(__printf__, 5, 6)));
void test_same_bytes(const char *what, size_t count, const unsigned char *got,
    const unsigned char *want, const char *parameters, ...)
    __attribute__((__format__(__printf__, 5, 6)));

#endif
