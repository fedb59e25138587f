#include "ref/bspmm_ref.h"

gemm_ref bspmm_ref(product kind, bspmm_ref_sizes s, float alpha, float beta, const float *in,
    const float *x, const float *old)
{
    gemm_ref ref =
        gemm_ref_begin(kind == NN ? s.batch * s.rows : s.outputs, kind == NT   ? s.rows
                                                                  : kind == NN ? s.outputs
                                                                               : s.cols);
    if (kind == TN) /* the samples' rows follow each other: the sum over samples is one product */
        gemm_ref_add(&ref, true, false, s.batch * s.rows, in, x);
    else if (kind == NN)
        gemm_ref_add(&ref, false, false, s.cols, x, in);
    for (size_t n = 0; kind == NT && n < s.batch; n++)
        gemm_ref_add(
            &ref, false, true, s.cols, in + n * s.outputs * s.cols, x + n * s.rows * s.cols);
    gemm_ref_end(&ref, alpha, beta, old);
    return ref;
}
