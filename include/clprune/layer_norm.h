/* Layer normalisation (arXiv 1607.06450) of each row over its d features:
 *
 *     y[r][c] = gamma[c] * xhat[r][c] + beta[c],    xhat[r][c] = (x[r][c] - mean[r]) * inv[r]
 *     inv[r]  = 1 / sqrt(variance[r] + eps)         biased variance
 *
 * as PyTorch's LayerNorm over the last dimension. Without gamma and beta y is xhat.
 *
 * The statistics of a row, `stats`, are M x 2: column 0 is the mean, column 1 is inv. */
#ifndef CLPRUNE_LAYER_NORM_H
#define CLPRUNE_LAYER_NORM_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes y and the statistics that the backward pass needs. x, y: M x d, may be of bf16; y may be
 * x. gamma, beta: 1 x d, or both CLPRUNE_NO_MAT. stats: M x 2; CLPRUNE_NO_MAT skips it. eps:
 * PyTorch takes 1e-5.
 *
 * The variance is the mean of squared deviations from the mean, so a large mean does not harm it.
 * If all elements of a row are equal, xhat is 0. A NaN, an infinity or a sum that overflows makes
 * its own row NaN and no other. Squares of deviations beyond 1e19 overflow; inv and xhat are then
 * 0. No features give mean 0, variance 0. Errors: INVALID_ARGUMENT (eps not above 0). */
CLPRUNE_API clprune_status clprune_layer_norm_forward(clprune_context *context, float eps,
    clprune_mat x, clprune_mat gamma, clprune_mat beta, clprune_mat y, clprune_mat stats,
    cl_event *event);

/* y from kept statistics, with the same bits as clprune_layer_norm_forward. A backward pass can
 * thus recompute y from x. y may be x; both may be of bf16. */
CLPRUNE_API clprune_status clprune_layer_norm_apply(clprune_context *context, clprune_mat x,
    clprune_mat stats, clprune_mat gamma, clprune_mat beta, clprune_mat y, cl_event *event);

/* The parameters, or their gradients dgamma and dbeta: 1 x d each. */
typedef struct clprune_layer_norm {
    clprune_mat gamma, beta;
} clprune_layer_norm;

/* With g = gamma * dy, or dy if gamma is CLPRUNE_NO_MAT, and means over the features of the row:
 *     dx[r][c]  = inv[r] * (g[r][c] - mean(g) - xhat[r][c] * mean(g * xhat)) + dx_beta * dx[r][c]
 *     dgamma[c] = sum_r dy[r][c] * xhat[r][c] + beta * dgamma[c]
 *     dbeta[c]  = sum_r dy[r][c] + beta * dbeta[c]
 * dx_beta = 1 adds to a residual path's dx. A factor of 0 never reads the old values.
 * x, dy: M x d; x may be of bf16; stats: those of x. gamma: 1 x d, or CLPRUNE_NO_MAT if grads is
 * NULL. dx: M x d, or CLPRUNE_NO_MAT to skip it. grads: NULL skips both gradients. dx may be dy if
 * dx_beta is 0; otherwise outputs must not overlap other arguments. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_layer_norm_backward(clprune_context *context, float beta,
    float dx_beta, clprune_mat x, clprune_mat stats, clprune_mat gamma, clprune_mat dy,
    clprune_mat dx, const clprune_layer_norm *grads, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
