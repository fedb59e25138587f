/* Products against the reference: one dense product; the products of samples. */
#ifndef CLPRUNE_TEST_PRODUCT_H
#define CLPRUNE_TEST_PRODUCT_H

#include "ref/bspmm_ref.h"
#include "support/test.h"

typedef struct gemm_shape {
    size_t m, n, k;
} gemm_shape;

/* Fails unless `got` is alpha * op(a) * op(b) + beta * old; all are dense. */
static inline void product_close(gemm_shape s, bool ta, bool tb, float alpha, float beta,
    const float *a, const float *b, const float *old, const float *got, const char *name)
{
    gemm_ref ref = gemm_ref_begin(s.m, s.n);
    gemm_ref_add(&ref, ta, tb, s.k, a, b);
    gemm_ref_end(&ref, alpha, beta, old);
    test_close("c", s.m, s.n, got, ref.want, ref.bound,
        "%s, %zu x %zu x %zu, transposes %d %d, alpha %g, beta %g", name, s.m, s.n, s.k, ta, tb,
        (double)alpha, (double)beta);
}

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
    TEST_EVENT(clprune_gemm(context, ta, tb, alpha, beta, da.mat, db.mat, dc.mat, &event));
    product_close(s, ta, tb, alpha, beta, a, b, old, test_mat_get(&dc, "c"),
        test_text("gaps %zu %zu %zu%s", gaps[0], gaps[1], gaps[2], label));
    TEST_UNCHANGED(&da, &db);
}

/* ---- products of samples ---- */

static const char *const product_names[PRODUCTS] = {"tn", "nt", "nn"};

/* A product's operands but for x: `in` is dy or w, `out` dw or y; `old`: what out holds before. */
typedef struct operands {
    product kind;
    bspmm_ref_sizes sizes;
    size_t in_rows, in_cols, out_rows, out_cols;
    float *in, *old;
    test_mat din, out;
} operands;

/* Random ones. `in_gap`, `out_gap`: elements between rows. */
static inline operands operands_make(
    product kind, bspmm_ref_sizes s, uint64_t seed, size_t in_gap, size_t out_gap)
{
    const operands all[PRODUCTS] = {
        {TN, s, s.batch * s.rows, s.outputs, s.outputs, s.cols},
        {NT, s, s.batch * s.outputs, s.cols, s.outputs, s.rows},
        {NN, s, s.cols, s.outputs, s.batch * s.rows, s.outputs},
    };
    operands o = all[kind];
    o.in = test_new_normal(seed, o.in_rows * o.in_cols);
    o.old = test_new_normal(seed + 1, o.out_rows * o.out_cols);
    o.din = test_mat_make(o.in_rows, o.in_cols, in_gap, o.in);
    o.out = test_mat_make(o.out_rows, o.out_cols, out_gap, NULL);
    return o;
}

/* Before a call with `beta`: beta = 0 must not read the NaNs that `out` then holds. */
static inline void operands_reset(operands *o, float beta)
{
    test_mat_set(&o->out, beta == 0.0f ? NULL : o->old);
}

/* The rows of dy that belong to samples [first, first + count). */
static inline clprune_mat operands_part(const operands *o, size_t first, size_t count)
{
    const size_t each = o->kind == TN ? o->sizes.rows : o->sizes.outputs;
    return clprune_mat_rows(o->din.mat, first * each, count * each);
}

/* What a product of these `in` and x, both dense, must be. */
static inline gemm_ref operands_reference(
    const operands *o, float alpha, float beta, const float *in, const float *x)
{
    return bspmm_ref(o->kind, o->sizes, alpha, beta, in, x, o->old);
}

/* Fails unless `out` is the product of samples [first, first + count) of x, which has all samples,
 * and `in` is unchanged. Returns out. */
static inline float *operands_check_part(const operands *o, size_t first, size_t count, float alpha,
    float beta, const float *x, const char *name)
{
    const size_t each = o->kind == TN ? o->sizes.rows : o->sizes.outputs;
    operands part = *o;
    part.sizes.batch = count;
    gemm_ref ref = operands_reference(&part, alpha, beta,
        o->in + (o->kind == NN ? 0 : first * each * o->in_cols),
        x + first * o->sizes.rows * o->sizes.cols);
    float *got = test_mat_get(&o->out, product_names[o->kind]);
    test_close(product_names[o->kind], o->out_rows, o->out_cols, got, ref.want, ref.bound,
        "%s, %zu samples from %zu on, alpha %g, beta %g", name, count, first, (double)alpha,
        (double)beta);
    test_mat_unchanged(&o->din, "the dense operand");
    return got;
}

static inline float *operands_check(
    const operands *o, float alpha, float beta, const float *x, const char *name)
{
    return operands_check_part(o, 0, o->sizes.batch, alpha, beta, x, name);
}

#endif
