/* Affine (ResMLP's normalisation): y = alpha * x + beta, per feature. */
#ifndef CLPRUNE_AFFINE_H
#define CLPRUNE_AFFINE_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters, or their gradients dalpha and dbeta: 1 x d each. */
typedef struct clprune_affine {
    clprune_mat alpha, beta;
} clprune_affine;

/* y[r][c] = alpha[c] * x[r][c] + beta[c]. x, y: M x d, may be the same matrix, and may be of bf16;
 * alpha, beta: 1 x d. */
CLPRUNE_API clprune_status clprune_affine_forward(clprune_context *context, clprune_mat x,
    clprune_mat alpha, clprune_mat beta, clprune_mat y, cl_event *event);

/* dx[r][c]  = alpha[c] * dy[r][c] + dx_beta * dx[r][c]; dx_beta = 1 adds to a residual path's dx
 * dalpha[c] = sum_r x[r][c] * dy[r][c] + beta * dalpha[c]
 * dbeta[c]  = sum_r dy[r][c] + beta * dbeta[c]
 * x, dy, dx: M x d, x may be of bf16; alpha, dalpha, dbeta: 1 x d. A factor of 0 never reads the
 * old values. dx may be dy if dx_beta is 0; otherwise outputs must not overlap other arguments.
 * Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_affine_backward(clprune_context *context, float beta,
    float dx_beta, clprune_mat x, clprune_mat alpha, clprune_mat dy, clprune_mat dx,
    const clprune_affine *grads, cl_event *event);

/* The next three functions are the backward pass of an affine that feeds a linear layer,
 * h = (alpha * x + beta) * w^T. It needs neither the affine's output nor its gradient:
 *
 *     clprune_affine_weights(...)             scaled = alpha * w; then dx = dh * scaled
 *     clprune_affine_centre(...)              x - centre, optional
 *     dw = dh^T * (x - centre)                clprune_gemm, or a product with a store of x
 *     clprune_affine_backward_product(...)    dw, dalpha, dbeta
 *
 * w, scaled, dw: o x d; centre: 1 x d; sums: 1 x o, the sum of the rows of dh (its db). */

/* scaled[i][c] = alpha[c] * w[i][c]; scaled may be w. */
CLPRUNE_API clprune_status clprune_affine_weights(clprune_context *context, clprune_mat alpha,
    clprune_mat w, clprune_mat scaled, cl_event *event);

/* x[r][c] -= centre[c], in place. */
CLPRUNE_API clprune_status clprune_affine_centre(
    clprune_context *context, clprune_mat centre, clprune_mat x, cl_event *event);

/* Turns dw = dh^T * (x - centre) into the gradients, using dh^T x = dw + sums^T centre:
 *     dw[i][c] <- alpha[c] * dw[i][c] + (beta[c] + alpha[c] * centre[c]) * sums[i]
 *                                                                   (dh^T * (alpha * x + beta))
 *     dalpha[c] = sum_i w[i][c] * (dh^T x)[i][c] + old_sums * dalpha[c]   (sum of x * (dh * w))
 *     dbeta[c]  = sum_i w[i][c] * sums[i] + old_sums * dbeta[c]           (sum of dh * w)
 * old_sums = 0 never reads the old dalpha and dbeta. dw has no such factor: to accumulate dw over
 * passes, use a separate matrix for each pass and add them.
 * All centres give the same gradients except for rounding. Zeros suffice if x is near zero. Centre
 * x, for example on the mean of a few rows, when alpha * x and beta nearly cancel; otherwise
 * cancellation loses precision. No argument may overlap an output. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_affine_backward_product(clprune_context *context, float old_sums,
    clprune_mat w, const clprune_affine *params, clprune_mat centre, clprune_mat sums,
    clprune_mat dw, const clprune_affine *grads, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
