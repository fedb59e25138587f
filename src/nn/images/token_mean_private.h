/* Forward and backward of a mean over tokens, with any factor instead of 1 / tokens. */
#ifndef CLPRUNE_NN_TOKEN_MEAN_PRIVATE_H
#define CLPRUNE_NN_TOKEN_MEAN_PRIVATE_H

#include "clprune/token_mean.h"

/* y_n = scale * sum of the rows of x_n. x: (batch * tokens) x d; y: batch x d, apart from x. */
clprune_status clprune__token_sum(clprune_context *context, size_t batch, size_t tokens,
    float scale, clprune_mat x, clprune_mat y, cl_event *event);

/* Each row of dx_n = scale * dy_n. dy: batch x d; dx: (batch * tokens) x d, apart from dy. */
clprune_status clprune__token_spread(clprune_context *context, size_t batch, size_t tokens,
    float scale, clprune_mat dy, clprune_mat dx, cl_event *event);

#endif
