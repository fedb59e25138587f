/* Softmax of each row over its d features:
 *
 *     y[r][c] = exp(x[r][c]) / sum over c of exp(x[r][c])
 *
 * as PyTorch's over the last dimension. clprune/attention.h has its own, which needs no matrix of
 * probabilities. */
#ifndef CLPRUNE_SOFTMAX_H
#define CLPRUNE_SOFTMAX_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y: M x d; y may be x. The largest element of a row is subtracted first, so none overflows. A
 * row with NaN or +Inf, or of -Inf alone, becomes NaN. */
CLPRUNE_API clprune_status clprune_softmax_forward(
    clprune_context *context, clprune_mat x, clprune_mat y, cl_event *event);

/* dx[r][c] = y[r][c] * (dy[r][c] - sum over c of dy[r][c] * y[r][c]) + dx_beta * dx[r][c]
 *
 * dx_beta = 0 never reads the old dx. y: that of the forward pass; y, dy, dx: M x d. dx may be dy
 * if dx_beta is 0. */
CLPRUNE_API clprune_status clprune_softmax_backward(clprune_context *context, float dx_beta,
    clprune_mat y, clprune_mat dy, clprune_mat dx, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
