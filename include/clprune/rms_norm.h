/* Normalisation of each row by its root mean square over its d features (arXiv 1910.07467):
 *
 *     y[r][c] = gamma[c] * xhat[r][c],    xhat[r][c] = x[r][c] * inv[r]
 *     inv[r]  = 1 / sqrt(mean over c of x[r][c]^2 + eps)
 *
 * as PyTorch's RMSNorm over the last dimension. Without gamma y is xhat. */
#ifndef CLPRUNE_RMS_NORM_H
#define CLPRUNE_RMS_NORM_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes y, and inv for the backward pass. x, y: M x d, may be of bf16; y may be x.
 * gamma: 1 x d, or CLPRUNE_NO_MAT. inv: M x 1; CLPRUNE_NO_MAT skips it. eps: Llama takes 1e-5 or
 * 1e-6. Elements beyond 1e19 overflow their square, and inv is 0. Errors: INVALID_ARGUMENT (eps not
 * above 0). */
CLPRUNE_API clprune_status clprune_rms_norm_forward(clprune_context *context, float eps,
    clprune_mat x, clprune_mat gamma, clprune_mat y, clprune_mat inv, cl_event *event);

/* y from a kept inv, with the same bits as clprune_rms_norm_forward. y may be x; both
 * may be of bf16. */
CLPRUNE_API clprune_status clprune_rms_norm_apply(clprune_context *context, clprune_mat x,
    clprune_mat inv, clprune_mat gamma, clprune_mat y, cl_event *event);

/* With g = gamma * dy, or dy if gamma is CLPRUNE_NO_MAT, and the mean over the features of the row:
 *     dx[r][c]  = inv[r] * (g[r][c] - xhat[r][c] * mean(g * xhat)) + dx_beta * dx[r][c]
 *     dgamma[c] = sum_r dy[r][c] * xhat[r][c] + beta * dgamma[c]
 * dx_beta = 1 adds to a residual path's dx. A factor of 0 never reads the old values. x, dy: M x d;
 * x may be of bf16; inv: that of x. dx: M x d, dgamma: 1 x d; CLPRUNE_NO_MAT skips either. dx may
 * be dy if dx_beta is 0; otherwise outputs must not overlap other arguments. Sums run in a fixed
 * order. */
CLPRUNE_API clprune_status clprune_rms_norm_backward(clprune_context *context, float beta,
    float dx_beta, clprune_mat x, clprune_mat inv, clprune_mat gamma, clprune_mat dy,
    clprune_mat dx, clprune_mat dgamma, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
