/* Group normalisation (arXiv 1803.08494) of each sample over its rows and a group of neighbouring
 * features, of which there are d / groups. Of sample n with rows r, group k and its features c:
 *
 *     y[r][c]    = gamma[c] * xhat[r][c] + beta[c]
 *     xhat[r][c] = (x[r][c] - mean[n][k]) * inv[n][k]
 *     inv[n][k]  = 1 / sqrt(variance[n][k] + eps)               biased variance
 *
 * as PyTorch's GroupNorm of (N, C, H, W), whose rows here are pixels. One group is a layer norm of
 * whole samples, d groups are an instance norm. Without gamma and beta y is xhat.
 *
 * The statistics, `stats`, are batch x 2 groups: mean[n][k] in column 2 k, inv[n][k] behind it. */
#ifndef CLPRUNE_GROUP_NORM_H
#define CLPRUNE_GROUP_NORM_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes y and the statistics that the backward pass needs. x, y: M x d of `batch` samples, which
 * divides M; y may be x. groups divides d. gamma, beta: 1 x d, or both CLPRUNE_NO_MAT. stats: batch
 * x 2 groups; CLPRUNE_NO_MAT skips it. eps: PyTorch takes 1e-5.
 *
 * The variance is the mean of squared deviations from the mean, so a large mean does not harm it.
 * If all elements of a group are equal, xhat is 0. A NaN, an infinity or a sum that overflows makes
 * its own group NaN and no other. If x has no elements, stats is not written. Errors:
 * INVALID_ARGUMENT (eps not above 0), INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_group_norm_forward(clprune_context *context, size_t batch,
    size_t groups, float eps, clprune_mat x, clprune_mat gamma, clprune_mat beta, clprune_mat y,
    clprune_mat stats, cl_event *event);

/* y from kept statistics, with the same bits as clprune_group_norm_forward. y may be x. */
CLPRUNE_API clprune_status clprune_group_norm_apply(clprune_context *context, size_t batch,
    size_t groups, clprune_mat x, clprune_mat stats, clprune_mat gamma, clprune_mat beta,
    clprune_mat y, cl_event *event);

/* The parameters, or their gradients dgamma and dbeta: 1 x d each. */
typedef struct clprune_group_norm {
    clprune_mat gamma, beta;
} clprune_group_norm;

/* With g = gamma * dy, or dy if gamma is CLPRUNE_NO_MAT, and means over the rows and features of
 * the group:
 *
 *     dx[r][c]  = inv * (g[r][c] - mean(g) - xhat[r][c] * mean(g * xhat)) + dx_beta * dx[r][c]
 *     dgamma[c] = sum_r dy[r][c] * xhat[r][c] + beta * dgamma[c]       rows of all samples
 *     dbeta[c]  = sum_r dy[r][c] + beta * dbeta[c]
 *
 * dx_beta = 1 adds to a residual path's dx. A factor of 0 never reads the old values. x, dy: M x d;
 * stats: those of x. gamma: 1 x d, or CLPRUNE_NO_MAT if grads is NULL. dx: M x d, or CLPRUNE_NO_MAT
 * to skip it. grads: NULL skips both gradients. dx may be dy if dx_beta is 0; otherwise outputs
 * must not overlap other arguments. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_group_norm_backward(clprune_context *context, size_t batch,
    size_t groups, float beta, float dx_beta, clprune_mat x, clprune_mat stats, clprune_mat gamma,
    clprune_mat dy, clprune_mat dx, const clprune_group_norm *grads, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
