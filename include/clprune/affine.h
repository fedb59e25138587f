/* Affine (ResMLP's normalisation): y = alpha * x + beta, per feature. */
#ifndef CLPRUNE_AFFINE_H
#define CLPRUNE_AFFINE_H

#include <stdbool.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[r][c] = alpha[c] * x[r][c] + beta[c]. x, y: M x d, may be the same matrix; alpha, beta: 1 x d.
 */
CLPRUNE_API clprune_status clprune_affine_forward(clprune_context *context, clprune_mat x,
    clprune_mat alpha, clprune_mat beta, clprune_mat y, cl_event *event);

/* dx[r][c] = alpha[c] * dy[r][c]; dalpha[c] = sum_r x[r][c] * dy[r][c]; dbeta[c] = sum_r dy[r][c].
 * With `accumulate` dx is added to, for the residual path; dalpha and dbeta are overwritten. dx may
 * be dy itself (without accumulate). Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_affine_backward(clprune_context *context, bool accumulate,
    clprune_mat x, clprune_mat alpha, clprune_mat dy, clprune_mat dx, clprune_mat dalpha,
    clprune_mat dbeta, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
