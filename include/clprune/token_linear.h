/* Token linear layer (cross-patch): y_n = w * x_n + b * 1^T for each sample, mixing tokens.
 *
 * Everything stays in token layout (tokens x features, no transposes); blocks lie along features,
 * which is the reduction axis of the weight gradient. */
#ifndef CLPRUNE_TOKEN_LINEAR_H
#define CLPRUNE_TOKEN_LINEAR_H

#include "clprune/gemm.h"
#include "clprune/saved.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clprune_token_linear clprune_token_linear;

typedef struct clprune_token_linear_desc {
    size_t in, out;      /* tokens of x and of y */
    size_t features;     /* of both */
    clprune_block block; /* default {1, 16} where both are 0 */
    float sparsity;
    clprune_norm norm;
    clprune_criterion criterion;
    clprune_value_type value_type; /* narrow: BSR at any sparsity, 0 keeps all its blocks */
    clprune_index_type index_type; /* of that BSR */
} clprune_token_linear_desc;

/* As clprune_linear_create. */
CLPRUNE_API clprune_status clprune_token_linear_create(
    clprune_context *context, const clprune_token_linear_desc *desc, clprune_token_linear **layer);
CLPRUNE_API void clprune_token_linear_destroy(clprune_token_linear *layer); /* accepts NULL */

/* The store for up to `batch` inputs of this layer. */
CLPRUNE_API clprune_status clprune_token_linear_saved_create(
    clprune_token_linear *layer, size_t batch, const char *name, clprune_saved **saved);

/* y_n[q][c] = sum_p w[q][p] * x_n[p][c] + b[q], and saved = x in its kept form.
 * x: (batch * in) x features; w: out x in; b: 1 x out, or CLPRUNE_NO_MAT; y: (batch * out) x
 * features; saved: NULL in inference. y must not overlap x. */
CLPRUNE_API clprune_status clprune_token_linear_forward(clprune_token_linear *layer, size_t batch,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, clprune_saved *saved,
    cl_event *event);

/* dx_n = w^T * dy_n; dw = sum_n dy_n * saved_n^T; db[q] = sum over n and c of dy_n[q][c]. All are
 * overwritten; each may be CLPRUNE_NO_MAT to skip it. dx must not overlap dy. db takes a pass over
 * dy: clprune_layerscale_backward makes it on its way. */
CLPRUNE_API clprune_status clprune_token_linear_backward(clprune_token_linear *layer, size_t batch,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, clprune_mat dx, clprune_mat dw,
    clprune_mat db, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
