/* Bias additions in place. */
#ifndef CLPRUNE_NN_BIAS_H
#define CLPRUNE_NN_BIAS_H

#include "clprune/matrix.h"

/* y[r][c] += b[0][c]. b: 1 x d; y: M x d, apart from b. */
clprune_status clprune__bias_rows(
    clprune_context *context, clprune_mat b, clprune_mat y, cl_event *event);

/* y[n * tokens + q][c] += b[0][q]. b: 1 x tokens; y: (batch * tokens) x d, apart from b. */
clprune_status clprune__bias_tokens(clprune_context *context, size_t batch, size_t tokens,
    clprune_mat b, clprune_mat y, cl_event *event);

/* Fails unless b is 1 x count and lies apart from y. */
clprune_status clprune__check_bias(
    clprune_context *context, clprune_mat b, size_t count, clprune_mat y);

#endif
