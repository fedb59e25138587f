/* BSpMM: products with a batched BSR matrix xs, of batch samples of rows x cols.
 *
 *     tn   dw = alpha * sum_n dy_n^T * xs_n + beta * dw    blocks along an output axis (fc1, fc2)
 *     nt   dw = alpha * sum_n dy_n * xs_n^T + beta * dw    blocks along the reduction (token layer)
 *     nn   y_n = alpha * xs_n * w + beta * y_n             for each sample
 *
 * Sums run in fp32 in a fixed order: the same device gives the same bits. In a context that asked
 * for it, and whose device can (clprune_context_precision), tn and nt round their operands first,
 * to TF32 or bf16: by at most u = 2^-11 or 2^-8 of each, of the result by (2 u + u^2) sum |dy|
 * |xs|. Sizes of zero behave as BLAS: an empty sum scales the output by beta, and beta = 0 never
 * reads it. Outputs must not overlap inputs. Narrow values are widened first, to 4 * batch * keep *
 * BR * BC bytes of scratch, and narrow indices to 4 * batch * (keep + block_rows + 1): where memory
 * counts, multiply a few samples at a time (clprune_bsr_samples, beta = 1). xs is trusted: validate
 * a BSR you did not make (clprune_bsr_validate). Errors: INVALID_SIZE, INVALID_ARGUMENT,
 * SIZE_OVERFLOW, OUT_OF_DEVICE_MEMORY (scratch). */
#ifndef CLPRUNE_BSPMM_H
#define CLPRUNE_BSPMM_H

#include "clprune/bsr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dy: (batch * rows) x o; dw: o x cols. */
CLPRUNE_API clprune_status clprune_bspmm_tn(clprune_context *context, float alpha, float beta,
    clprune_mat dy, const clprune_bsr *xs, clprune_mat dw, cl_event *event);

/* dy: (batch * p) x cols; dw: p x rows. */
CLPRUNE_API clprune_status clprune_bspmm_nt(clprune_context *context, float alpha, float beta,
    clprune_mat dy, const clprune_bsr *xs, clprune_mat dw, cl_event *event);

/* w: cols x o; y: (batch * rows) x o. */
CLPRUNE_API clprune_status clprune_bspmm_nn(clprune_context *context, float alpha, float beta,
    const clprune_bsr *xs, clprune_mat w, clprune_mat y, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
