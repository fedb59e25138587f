#include "ref/bspmm_ref.h"

gemm_ref bspmm_ref_tn(
    bspmm_ref_sizes s, float alpha, float beta, const float *dy, const float *xs, const float *dw)
{
    /* The samples' rows follow each other, so the sum over samples is one long product. */
    gemm_ref ref = gemm_ref_begin(s.outputs, s.cols);
    gemm_ref_add(&ref, true, false, s.batch * s.rows, dy, xs);
    gemm_ref_end(&ref, alpha, beta, dw);
    return ref;
}

gemm_ref bspmm_ref_nt(
    bspmm_ref_sizes s, float alpha, float beta, const float *dy, const float *xs, const float *dw)
{
    gemm_ref ref = gemm_ref_begin(s.outputs, s.rows);
    for (size_t n = 0; n < s.batch; n++)
        gemm_ref_add(
            &ref, false, true, s.cols, dy + n * s.outputs * s.cols, xs + n * s.rows * s.cols);
    gemm_ref_end(&ref, alpha, beta, dw);
    return ref;
}

gemm_ref bspmm_ref_nn(
    bspmm_ref_sizes s, float alpha, float beta, const float *xs, const float *w, const float *y)
{
    gemm_ref ref = gemm_ref_begin(s.batch * s.rows, s.outputs);
    gemm_ref_add(&ref, false, false, s.cols, xs, w);
    gemm_ref_end(&ref, alpha, beta, y);
    return ref;
}
