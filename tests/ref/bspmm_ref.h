/* Reference of BSpMM: dense products of the unpacked samples. */
#ifndef CLPRUNE_BSPMM_REF_H
#define CLPRUNE_BSPMM_REF_H

#include "ref/gemm_ref.h"

/* dw = dy^T * x (tn) and dy * x^T (nt), sums over the samples of x; y = x * w (nn). */
typedef enum product { TN, NT, NN, PRODUCTS } product;

typedef struct bspmm_ref_sizes {
    size_t batch, rows, cols; /* of a sample */
    size_t outputs;
} bspmm_ref_sizes;

/* alpha * product + beta * old. x is dense; in: dy, of tn (batch * rows) x outputs and of nt (batch
 * * outputs) x cols, or w, cols x outputs. */
gemm_ref bspmm_ref(product kind, bspmm_ref_sizes s, float alpha, float beta, const float *in,
    const float *x, const float *old);

#endif
