/* Reference of BSpMM: dense products of the unpacked samples. Each sums with alpha and beta as
 * gemm_ref_end does; `xs` is the dense form, (batch * rows) x cols. */
#ifndef CLPRUNE_BSPMM_REF_H
#define CLPRUNE_BSPMM_REF_H

#include "ref/gemm_ref.h"

typedef struct bspmm_ref_sizes {
    size_t batch, rows, cols; /* of xs */
    size_t outputs;
} bspmm_ref_sizes;

/* dw, o x cols; dy: (batch * rows) x o. */
gemm_ref bspmm_ref_tn(
    bspmm_ref_sizes s, float alpha, float beta, const float *dy, const float *xs, const float *dw);

/* dw, p x rows; dy: (batch * p) x cols. */
gemm_ref bspmm_ref_nt(
    bspmm_ref_sizes s, float alpha, float beta, const float *dy, const float *xs, const float *dw);

/* y, (batch * rows) x o; w: cols x o. */
gemm_ref bspmm_ref_nn(
    bspmm_ref_sizes s, float alpha, float beta, const float *xs, const float *w, const float *y);

#endif
