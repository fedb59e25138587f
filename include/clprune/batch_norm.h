/* Batch normalisation over the rows of a matrix, with residual and ReLU in the same pass.
 *
 * An image tensor is channels-last: a row is a pixel, a column a channel, so M = batch * height *
 * width rows and C columns. Per channel, with mean and variance over the M rows,
 *
 *     xhat = (x - mean) * inv,    inv = 1 / sqrt(variance + eps)
 *     z    = gamma * xhat + beta (+ residual)
 *     y    = z, or with ReLU max(z, 0)
 *
 * Training, from the batch's own statistics:
 *
 *     clprune_batch_norm_moments(context, 0, x, bn.mean, bn.inv, NULL);
 *     clprune_batch_norm_statistics(context, M, 1e-5f, bn.mean, bn.inv, bn.inv, &running, NULL);
 *     clprune_batch_norm_forward(context, &bn, true, x, residual, y, mask, NULL);
 *     ...
 *     clprune_batch_norm_in in = {.bn = &bn, .relu = true, .x = x, .dy = dy, .mask = mask};
 *     clprune_batch_norm_backward_sums(context, 0, 0, &in, dresidual, sums, dgamma, dbeta, NULL);
 *     in = (clprune_batch_norm_in){.bn = &bn, .x = x, .dy = dresidual};
 *     clprune_batch_norm_backward_input(context, M, &in, sums, dx, NULL);
 *
 * Evaluation, from the running statistics:
 *
 *     bn.mean = running.mean;
 *     clprune_batch_norm_inverse(context, 1e-5f, running.var, bn.inv, NULL);
 *     clprune_batch_norm_forward(context, &bn, true, x, residual, y, CLPRUNE_NO_MAT, NULL);
 *
 * The backward pass needs x, mean and inv. y need not be kept: clprune_batch_norm_forward can
 * recompute it from x. ReLU's mask need not be kept either: without it the backward pass recomputes
 * the sign of z, with the same bits.
 *
 * Every function takes any range of the rows, so a caller can restore x and process it in chunks:
 * moments and sums add up over calls, and the other functions work element by element. */
#ifndef CLPRUNE_BATCH_NORM_H
#define CLPRUNE_BATCH_NORM_H

#include <stdbool.h>

#include "clprune/relu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters and the statistics in use, 1 x C each. */
typedef struct clprune_batch_norm {
    clprune_mat gamma, beta;
    clprune_mat mean, inv; /* inv = 1 / sqrt(variance + eps) */
} clprune_batch_norm;

/* ---- statistics --------------------------------------------------------------------------------
 */

/* The mean of each column, and m2 = the sum of squared deviations from it. With rows_before > 0,
 * mean and m2 hold the moments of rows_before other rows on entry, and of all rows on return; with
 * 0 they are not read. x: M x C; mean, m2: 1 x C. No argument may overlap an output. Without any
 * rows the results are 0. Deviations are taken from means of 8 rows and merged (Chan et al.), so m2
 * stays accurate where the mean is far larger than the deviation. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_batch_norm_moments(clprune_context *context, size_t rows_before,
    clprune_mat x, clprune_mat mean, clprune_mat m2, cl_event *event);

/* The running statistics, 1 x C each, and the share of a new batch. */
typedef struct clprune_batch_norm_running {
    float momentum; /* 0 to 1; PyTorch's default is 0.1 */
    clprune_mat mean, var;
} clprune_batch_norm_running;

/* inv = 1 / sqrt(m2 / rows + eps), and the running statistics as PyTorch updates them:
 *
 *     running->mean = (1 - momentum) * running->mean + momentum * mean
 *     running->var  = (1 - momentum) * running->var  + momentum * m2 / (rows - 1)
 *
 * All 1 x C; inv may be m2. running: NULL for none; it needs at least 2 rows. PyTorch's default
 * eps: 1e-5. Errors: INVALID_ARGUMENT (eps not above 0, momentum not from 0 to 1, too few rows). */
CLPRUNE_API clprune_status clprune_batch_norm_statistics(clprune_context *context, size_t rows,
    float eps, clprune_mat mean, clprune_mat m2, clprune_mat inv,
    const clprune_batch_norm_running *running, cl_event *event);

/* inv = 1 / sqrt(var + eps). var, inv: 1 x C; inv may be var. */
CLPRUNE_API clprune_status clprune_batch_norm_inverse(
    clprune_context *context, float eps, clprune_mat var, clprune_mat inv, cl_event *event);

/* ---- forward -----------------------------------------------------------------------------------
 */

/* y = gamma * (x - mean) * inv + beta + residual, then max(., 0) if `relu`; one pass over memory.
 * NaN stays NaN. x, residual, y: M x C; y may be x or residual. residual: CLPRUNE_NO_MAT for none.
 * mask: M x clprune_relu_mask_sizes.cols, receives ReLU's mask (relu.h); CLPRUNE_NO_MAT skips it,
 * and must be passed without `relu`. mask must not overlap other arguments. residual and y may be
 * of bf16. */
CLPRUNE_API clprune_status clprune_batch_norm_forward(clprune_context *context,
    const clprune_batch_norm *bn, bool relu, clprune_mat x, clprune_mat residual, clprune_mat y,
    clprune_mat mask, cl_event *event);

/* Recomputes ReLU's output from an x that was kept with less precision:
 * y = gamma * (x - mean) * inv + beta + residual where `mask` of the forward pass has a bit, else
 * 0. This y is linear in x, so an unbiased x gives an unbiased y; max(., 0) would not. From the
 * same x it is the forward pass's y, bit for bit. x, residual, y: M x C; y may be x or residual.
 * residual: CLPRUNE_NO_MAT for none. mask: M x clprune_relu_mask_sizes.cols, no overlap with y. */
CLPRUNE_API clprune_status clprune_batch_norm_forward_gated(clprune_context *context,
    const clprune_batch_norm *bn, clprune_mat x, clprune_mat residual, clprune_mat mask,
    clprune_mat y, cl_event *event);

/* ---- backward ----------------------------------------------------------------------------------
 *
 * dz = dy; with `relu` dz = dy where ReLU passed z, and 0 elsewhere. ReLU passed z where `mask` has
 * a bit, or without a mask where z, recomputed from x and residual, is positive or NaN. Both give
 * the same bits. */

/* What both passes read. Zero-initialise it. */
typedef struct clprune_batch_norm_in {
    const clprune_batch_norm *bn;
    bool relu;
    clprune_mat x, dy; /* rows x C */
    clprune_mat mask;  /* as in the forward pass, or CLPRUNE_NO_MAT */
    /* With `relu` and without a mask, the forward pass's residual; otherwise CLPRUNE_NO_MAT. */
    clprune_mat residual;
} clprune_batch_norm_in;

/* Pass 1. Row 0 of sums = sum of dz, row 1 = sum of dz * xhat, each + sums_beta * its old value;
 * sums_beta = 0 never reads them, 1 adds a further chunk of rows. These sums are also the gradients
 * of beta and gamma: dbeta = sum of dz + beta * dbeta and dgamma = sum of dz * xhat + beta *
 * dgamma, of this call's rows. beta = 0 never reads dgamma and dbeta. x, dy: M x C; sums: 2 x C;
 * dgamma, dbeta: 1 x C, or both CLPRUNE_NO_MAT. dz: M x C, the gradient of residual, or
 * CLPRUNE_NO_MAT; may be dy or residual. Pass 2 can read dz in place of dy, without `relu`. No
 * other overlap. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_batch_norm_backward_sums(clprune_context *context, float beta,
    float sums_beta, const clprune_batch_norm_in *in, clprune_mat dz, clprune_mat sums,
    clprune_mat dgamma, clprune_mat dbeta, cl_event *event);

/* Pass 2. rows: the number of rows that the statistics were computed from; sums: over all of them.
 * dx = gamma * inv * (dz - sums[0] / rows - xhat * sums[1] / rows).
 * x, dy, dx: any range of these rows, x C; dx may be x, dy or residual. */
CLPRUNE_API clprune_status clprune_batch_norm_backward_input(clprune_context *context, size_t rows,
    const clprune_batch_norm_in *in, clprune_mat sums, clprune_mat dx, cl_event *event);

/* ---- without the convolution's output ----------------------------------------------------------
 *
 * Let x = patches * w^T be the output of a convolution. Row p of `patches` has the input pixels
 * under the taps at output pixel p; the matrix is never formed. With dz and xhat as above,
 *
 *     dx = gamma * inv * (dz - sum of dz / rows - xhat * sum of dz * xhat / rows)
 *     dw = dx^T * patches
 *
 * is linear in dz^T * patches, 1^T * patches and x^T * patches. The sum of dz * x of a channel is
 * the dot product of its rows of w and of dz^T * patches. So a layer whose input needs no
 * gradient, such as the first of a network, needs neither x nor dx in its backward pass. The
 * forward pass makes x^T * patches by clprune_conv2d_backward with dy = x, and 1^T * patches with
 * dy = 1.
 *
 * On entry dw = dz^T * patches, on return the gradient; C x T. dgamma = sum of dz * xhat + beta *
 * dgamma; beta = 0 never reads the old dgamma; dw has no such factor. No argument may overlap an
 * output. Precision is lost where the means of the patches, or of x, are far larger than their
 * deviations: centre the input. Sums run in a fixed order. */
typedef struct clprune_batch_norm_products {
    clprune_mat w;         /* C x T, with T the columns of `patches` */
    clprune_mat patch_sum; /* 1^T * patches: 1 x T */
    clprune_mat x_product; /* x^T * patches: C x T */
    clprune_mat dz_sum;    /* 1 x C, the sum of dz, which is the gradient of beta */
} clprune_batch_norm_products;

/* dw and dgamma from these products. */
CLPRUNE_API clprune_status clprune_batch_norm_backward_product(clprune_context *context,
    size_t rows, float beta, const clprune_batch_norm *bn, const clprune_batch_norm_products *in,
    clprune_mat dw, clprune_mat dgamma, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
