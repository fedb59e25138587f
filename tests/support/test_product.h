/* One dense product against the reference. */
#ifndef CLPRUNE_TEST_PRODUCT_H
#define CLPRUNE_TEST_PRODUCT_H

#include <stdlib.h>

#include "ref/gemm_ref.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_rng.h"

typedef struct gemm_shape {
    size_t m, n, k;
} gemm_shape;

static inline test_mat product_operand(
    bool transpose, size_t rows, size_t cols, size_t gap, const float *values)
{
    return test_mat_make(transpose ? cols : rows, transpose ? rows : cols, gap, values);
}

/* Fails unless c = alpha * op(a) * op(b) + beta * c for random operands with gaps[i] elements
 * between rows (a, b, c), a and b are unchanged, and the product returns an event. `label` is
 * printed on failure. */
static inline void test_product(clprune_context *context, gemm_shape s, bool ta, bool tb,
    float alpha, float beta, const size_t gaps[3], const char *label)
{
    float *a = test_new_normal(11, s.m * s.k), *b = test_new_normal(12, s.k * s.n);
    float *old = test_new_normal(13, s.m * s.n);
    test_mat da = product_operand(ta, s.m, s.k, gaps[0], a);
    test_mat db = product_operand(tb, s.k, s.n, gaps[1], b);
    test_mat dc = test_mat_make(s.m, s.n, gaps[2], beta == 0.0f ? NULL : old);
    cl_event event = NULL;
    TEST_OK(clprune_gemm(context, ta, tb, alpha, beta, da.mat, db.mat, dc.mat, &event));
    assert_non_null(event);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
    gemm_ref ref = gemm_ref_begin(s.m, s.n);
    gemm_ref_add(&ref, ta, tb, s.k, a, b);
    gemm_ref_end(&ref, alpha, beta, old);
    float *got = test_mat_get(&dc, "c");
    test_close("c", s.m, s.n, got, ref.want, ref.bound,
        "%zu x %zu x %zu, transposes %d %d, alpha %g, beta %g, gaps %zu %zu %zu%s", s.m, s.n, s.k,
        ta, tb, (double)alpha, (double)beta, gaps[0], gaps[1], gaps[2], label);
    test_mat_unchanged(&da, "a");
    test_mat_unchanged(&db, "b");
}

#endif
