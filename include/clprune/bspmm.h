/* BSpMM: products with a batched BSR matrix xs of `batch` samples of rows x cols.
 *
 *     tn   dw = alpha * sum_n dy_n^T * xs_n + beta * dw    a layer over features: y = x * w^T
 *     nt   dw = alpha * sum_n dy_n * xs_n^T + beta * dw    a layer over rows: y_n = w * x_n
 *     nn   y_n = alpha * xs_n * w + beta * y_n             for each sample
 *
 * Numbers. Sums run in fp32 in a fixed order: the same device gives the same bits. The vector
 * kernels give them with any number of compute units. If the context's precision
 * (clprune_context_precision) is TF32 or BF16, tn and nt round their operands first. The relative
 * error of an operand is then at most u = 2^-11 (TF32) or 2^-8 (BF16), and the error of the result
 * at most (2 u + u^2) sum |dy| |xs|. nn does so for BF16 in vector kernels, else it runs in fp32.
 * Vector kernels read subnormal operands of BF16 as 0; subnormal sums may become 0.
 *
 * Zeros behave as in BLAS: an empty sum scales the output by beta, as does alpha = 0, which never
 * reads the inputs. beta = 0 never reads the output. Outputs must not overlap inputs.
 *
 * Scratch. Values narrower than fp32 are widened first, to 4 * batch * keep * BR * BC bytes; in
 * place of that, BF16 in vector kernels takes about half, for values of every type. Index types
 * other than INT32 take 4 * batch * (keep + block_rows + 1) bytes. To bound it, multiply a few
 * samples at a time (clprune_bsr_samples, beta = 1). Vector kernels of nn also take a copy of w,
 * padded to whole blocks and up to 128 outputs; in BF16 half of it.
 *
 * xs is not checked: call clprune_bsr_validate for a BSR matrix of your own. Errors: INVALID_SIZE,
 * INVALID_ARGUMENT, SIZE_OVERFLOW, OUT_OF_DEVICE_MEMORY (scratch). */
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
