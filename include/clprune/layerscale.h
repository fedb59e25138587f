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

/* dt[r][c] = ls[c] * dy[r][c]; dls[c] = sum_r t[r][c] * dy[r][c] + beta * dls[c]. The gradient of x
 * is dy itself. dt may be t. In the same pass over memory, the bias gradient of the layer that made
 * t, each CLPRUNE_NO_MAT to skip it:
 *     db[c]        = sum_r dt[r][c] + beta * db[c], of a linear layer, 1 x d;
 *     db_tokens[q] = sum over n and c of dt[n * p + q][c] + beta * db_tokens[q], of a token linear
 * layer of p outputs, 1 x p with p a divisor of M. With beta 0 the old sums are not read. dls, db
 * and db_tokens lie apart from all. Sums run in a fixed order. Errors: INVALID_ARGUMENT,
 * INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_layerscale_backward(clprune_context *context, float beta,
    clprune_mat t, clprune_mat ls, clprune_mat dy, clprune_mat dt, clprune_mat dls, clprune_mat db,
    clprune_mat db_tokens, cl_event *event);

/* Where a linear layer makes the branch, y = x + ls * (g * w^T + b), neither its output nor the
 * gradient of that is needed: dg = dy * scaled, and the weight gradient is taken with dy itself.
 * w, scaled, dw: d x i; ls, b, db, dls: 1 x d.
 *
 * scaled[o][c] = ls[o] * w[o][c]; may be w. */
CLPRUNE_API clprune_status clprune_layerscale_weights(
    clprune_context *context, clprune_mat ls, clprune_mat w, clprune_mat scaled, cl_event *event);

/* Turns dw = dy^T * g and db = sum of the rows of dy into the gradients:
 *     dls[o]    = sum_c w[o][c] * (dy^T g)[o][c] + b[o] * sum_r dy[r][o]  (sum of (g w^T + b) * dy)
 *                 + beta * dls[o]
 *     dw[o][c] <- ls[o] * dw[o][c]
 *     db[o]    <- ls[o] * db[o]
 * With beta 0 the old dls is not read. dw and db belong to one pass: to accumulate them, give
 * matrices of their own. No argument may overlap an output. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_layerscale_backward_product(clprune_context *context, float beta,
    clprune_mat w, clprune_mat b, clprune_mat ls, clprune_mat dls, clprune_mat dw, clprune_mat db,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
