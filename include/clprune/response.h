/* How strongly each feature of a sample responds beside the others, as global response
 * normalisation weighs them (arXiv 2301.00808). For each sample n, with its rows r:
 *
 *     y[n][c] = g[n][c] / (mean over c of g[n][c] + eps),    g[n][c] = sqrt(sum_r x[r][c]^2)
 *
 * GRN is alpha * (x * y) + beta + x (clprune/gate.h, clprune/affine.h). */
#ifndef CLPRUNE_RESPONSE_H
#define CLPRUNE_RESPONSE_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x: M x d of `batch` samples, which divides M; y: batch x d. Elements beyond 1e19 overflow their
 * square. eps: above 0; ConvNeXt V2 takes 1e-6. Takes scratch of batch * d floats. Errors:
 * INVALID_ARGUMENT (eps), INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_response_forward(clprune_context *context, size_t batch,
    float eps, clprune_mat x, clprune_mat y, cl_event *event);

/* With m[n] = mean over c of g[n][c] + eps:
 *
 *     dg[n][c] = (dy[n][c] - mean over c of dy[n][c] * y[n][c]) / m[n]
 *     dx[r][c] = dg[n][c] * x[r][c] / g[n][c] + dx_beta * dx[r][c]     with 0 / 0 = 0
 *
 * dx_beta = 0 never reads the old dx. x: that of the forward pass; dy: batch x d; dx: M x d, which
 * must not overlap other arguments. Takes scratch of 2 * batch * d floats. Errors: as above. */
CLPRUNE_API clprune_status clprune_response_backward(clprune_context *context, size_t batch,
    float eps, float dx_beta, clprune_mat x, clprune_mat dy, clprune_mat dx, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
