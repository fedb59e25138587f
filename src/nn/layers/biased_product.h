/* Products with a bias, fused by the engine or added in another pass. */
#ifndef CLPRUNE_NN_BIASED_PRODUCT_H
#define CLPRUNE_NN_BIASED_PRODUCT_H

#include "ops/products/gemm_private.h"

/* y = x * w^T + 1 * b. x: M x k; w: d x k; b: 1 x d, or CLPRUNE_NO_MAT; y: M x d, apart from the
 * others. scores: NULL, or the norms of x's blocks that the product computes if it can; if it
 * cannot, scores->to.buffer is NULL on return. */
clprune_status clprune__product_rows(clprune_context *context, clprune_mat x, clprune_mat w,
    clprune_mat b, clprune_mat y, clprune__gemm_scores *scores, cl_event *event);

/* y_n = w * x_n + b^T * 1 for each of `batch` >= 1 samples. x: (batch * p) x d; w: tokens x p; b: 1
 * x tokens, or CLPRUNE_NO_MAT; y: (batch * tokens) x d, apart from the others. */
clprune_status clprune__product_tokens(clprune_context *context, size_t batch, clprune_mat x,
    clprune_mat w, clprune_mat b, clprune_mat y, cl_event *event);

#endif
