/* Learned positions: what is added to each row of a sample, the same for all samples. */
#ifndef CLPRUNE_POSITIONS_H
#define CLPRUNE_POSITIONS_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[n * rows + q] = x[n * rows + q] + p[q]; with x = CLPRUNE_NO_MAT, y[n * rows + q] = p[q]. x, y:
 * (batch * rows) x d; p: rows x d; y may be x. */
CLPRUNE_API clprune_status clprune_positions_forward(clprune_context *context, size_t batch,
    clprune_mat x, clprune_mat p, clprune_mat y, cl_event *event);

/* dp[q] = sum over the samples n of dy[n * rows + q], in a fixed order, + beta * dp[q]. beta = 0
 * never reads dp; beta = 1 accumulates. dy: (batch * rows) x d; dp: rows x d. The gradient of x is
 * dy. */
CLPRUNE_API clprune_status clprune_positions_backward(clprune_context *context, size_t batch,
    float beta, clprune_mat dy, clprune_mat dp, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
