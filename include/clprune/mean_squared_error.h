/* Mean squared error, the loss of regressions. */
#ifndef CLPRUNE_MEAN_SQUARED_ERROR_H
#define CLPRUNE_MEAN_SQUARED_ERROR_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* loss[n][0] = the mean of (y - target)^2 over the rows and columns of sample n; it is finite if
 * the sum of the squares is. y, target: (batch * rows) x d; loss: batch x 1, apart from both. A
 * sample without elements has loss NaN. Sums run in a fixed order, which depends on rows and d
 * alone: a sample has the same loss in any batch. They are added up in parts, so the error of a
 * large sample stays near that of a small one. */
CLPRUNE_API clprune_status clprune_mean_squared_error_forward(clprune_context *context,
    size_t batch, clprune_mat y, clprune_mat target, clprune_mat loss, cl_event *event);

/* dy = scale * 2 / (rows * d) * (y - target), the gradient of scale * sum_n loss[n]. For the mean
 * loss use scale = 1 / batch. y, target, dy: (batch * rows) x d; dy may be y. */
CLPRUNE_API clprune_status clprune_mean_squared_error_backward(clprune_context *context,
    size_t batch, float scale, clprune_mat y, clprune_mat target, clprune_mat dy, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
