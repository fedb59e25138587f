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

/* dx[r][c]  = alpha[c] * dy[r][c] + dx_beta * dx[r][c]; dx_beta is 1 where a residual path is added
 * dalpha[c] = sum_r x[r][c] * dy[r][c] + beta * dalpha[c]
 * dbeta[c]  = sum_r dy[r][c] + beta * dbeta[c]
 * A factor of 0 does not read the old values. dx may be dy itself where dx_beta is 0. Sums run in a
 * fixed order. */
CLPRUNE_API clprune_status clprune_affine_backward(clprune_context *context, float beta,
    float dx_beta, clprune_mat x, clprune_mat alpha, clprune_mat dy, clprune_mat dx,
    clprune_mat dalpha, clprune_mat dbeta, cl_event *event);

/* Where the affine feeds a linear layer, h = (alpha * x + beta) * w^T, neither its output nor the
 * gradient of that is needed: dx = dh * scaled, and the weight gradient is taken from x itself.
 * w, scaled, dw: o x d; center: 1 x d; sums: 1 x o, the sums of the rows of dh (its db).
 *
 * scaled[i][c] = alpha[c] * w[i][c]; may be w. */
CLPRUNE_API clprune_status clprune_affine_weights(clprune_context *context, clprune_mat alpha,
    clprune_mat w, clprune_mat scaled, cl_event *event);

/* x[r][c] -= center[c], in place. */
CLPRUNE_API clprune_status clprune_affine_center(
    clprune_context *context, clprune_mat center, clprune_mat x, cl_event *event);

/* Turns dw = dh^T * (x - center) into the gradients, by the distributive law, with
 * dh^T x = dw + sums^T center:
 *     dw[i][c] <- alpha[c] * dw[i][c] + (beta[c] + alpha[c] * center[c]) * sums[i]
 *                                                                   (dh^T * (alpha * x + beta))
 *     dalpha[c] = sum_i w[i][c] * (dh^T x)[i][c] + old_sums * dalpha[c]   (sum of x * (dh * w))
 *     dbeta[c]  = sum_i w[i][c] * sums[i] + old_sums * dbeta[c]           (sum of dh * w)
 * With old_sums 0 the old dalpha and dbeta are not read. dw belongs to one pass: to accumulate it,
 * give a matrix of its own.
 * Any center gives the same gradients but for rounding. Zeros do where x is about zero; else choose
 * one among the values of x, such as their mean over a few rows: where a large x and beta cancel in
 * the affine, dh^T * x and its sums would have to, with the rounding of a product over all rows. No
 * argument may overlap an output. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_affine_backward_product(clprune_context *context, float old_sums,
    clprune_mat w, clprune_mat alpha, clprune_mat beta, clprune_mat center, clprune_mat sums,
    clprune_mat dw, clprune_mat dalpha, clprune_mat dbeta, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
