/* Mean over the tokens of each sample. Of channels-last images (conv2d.h) it is global average
 * pooling: the tokens are the height * width pixels. */
#ifndef CLPRUNE_TOKEN_MEAN_H
#define CLPRUNE_TOKEN_MEAN_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[n][c] = (1 / tokens) * sum_p x[n * tokens + p][c]; it is finite if the sum is. x: (batch *
 * tokens) x d; y: batch x d, apart from x. */
CLPRUNE_API clprune_status clprune_token_mean_forward(clprune_context *context, size_t batch,
    size_t tokens, clprune_mat x, clprune_mat y, cl_event *event);

/* dx[n * tokens + p][c] = dy[n][c] / tokens. dy: batch x d; dx: (batch * tokens) x d, apart from
 * dy. */
CLPRUNE_API clprune_status clprune_token_mean_backward(clprune_context *context, size_t batch,
    size_t tokens, clprune_mat dy, clprune_mat dx, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
