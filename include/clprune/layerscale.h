/* LayerScale with residual (arXiv 2103.17239): y = x + ls * t, ls per feature. */
#ifndef CLPRUNE_LAYERSCALE_H
#define CLPRUNE_LAYERSCALE_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[r][c] = x[r][c] + ls[c] * t[r][c]. x, t, y: M x d; y may be x or t; ls: 1 x d. */
CLPRUNE_API clprune_status clprune_layerscale_forward(clprune_context *context, clprune_mat x,
    clprune_mat t, clprune_mat ls, clprune_mat y, cl_event *event);

/* The gradients of the parameters. Zero-initialise it. */
typedef struct clprune_layerscale_grads {
    clprune_mat dls;           /* 1 x d */
    clprune_mat db, db_tokens; /* of the layer that made t, or CLPRUNE_NO_MAT */
} clprune_layerscale_grads;

/* dt[r][c] = ls[c] * dy[r][c]; dls[c] = sum_r t[r][c] * dy[r][c] + beta * dls[c]. t, dy, dt: M x d,
 * t may be of bf16; ls, dls: 1 x d. The gradient of x is dy itself. The same pass over memory can
 * compute the bias gradient of the layer that made t; pass CLPRUNE_NO_MAT to skip one: linear layer
 * over features: db[c] = sum_r dt[r][c] + beta * db[c]; db: 1 x d linear layer over rows with p
 * outputs: db_tokens[q] = sum over n and c of dt[n * p + q][c]
 *                                            + beta * db_tokens[q]; db_tokens: 1 x p, p divides M
 * beta = 0 never reads the old sums. dt may be t. dls, db and db_tokens must not overlap other
 * arguments. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_layerscale_backward(clprune_context *context, float beta,
    clprune_mat t, clprune_mat ls, clprune_mat dy, clprune_mat dt,
    const clprune_layerscale_grads *grads, cl_event *event);

/* The next two functions are the backward pass of a LayerScale after a linear layer,
 * y = x + ls * (g * w^T + b). It needs neither the linear layer's output nor its gradient:
 *
 *     clprune_layerscale_weights(...)             scaled = ls * w; then dg = dy * scaled
 *     dw = dy^T * g, db = sum of the rows of dy   clprune_linear_backward with dy
 *     clprune_layerscale_backward_product(...)    dw, db, dls
 *
 * w, scaled, dw: d x i; ls, b, db, dls: 1 x d. */

/* scaled[o][c] = ls[o] * w[o][c]; scaled may be w. */
CLPRUNE_API clprune_status clprune_layerscale_weights(
    clprune_context *context, clprune_mat ls, clprune_mat w, clprune_mat scaled, cl_event *event);

/* Turns dw = dy^T * g and db = sum of the rows of dy into the gradients:
 *     dls[o]    = sum_c w[o][c] * (dy^T g)[o][c] + b[o] * sum_r dy[r][o]  (sum of (g w^T + b) * dy)
 *                 + beta * dls[o]
 *     dw[o][c] <- ls[o] * dw[o][c]
 *     db[o]    <- ls[o] * db[o]
 * beta = 0 never reads the old dls. dw and db have no such factor: to accumulate them over passes,
 * use separate matrices for each pass and add them. No argument may overlap an output. Sums run in
 * a fixed order. */
CLPRUNE_API clprune_status clprune_layerscale_backward_product(clprune_context *context, float beta,
    clprune_mat w, clprune_mat b, clprune_mat ls, clprune_mat dls, clprune_mat dw, clprune_mat db,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
