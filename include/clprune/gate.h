/* Gates: each feature of a sample is multiplied by one number, as squeeze-and-excitation does
 * (arXiv 1709.01507).
 *
 *     y[n * rows + r][c] = x[n * rows + r][c] * g[n][c]        rows of each of the `batch` samples
 *
 * With as many samples as rows it is the product of two matrices, element by element. */
#ifndef CLPRUNE_GATE_H
#define CLPRUNE_GATE_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y: M x d of `batch` samples, which divides M; y may be x, or g if batch is M. g: batch x d.
 * Errors: INVALID_ARGUMENT, INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_gate_forward(clprune_context *context, size_t batch,
    clprune_mat x, clprune_mat g, clprune_mat y, cl_event *event);

/* With sums over the rows r of sample n:
 *
 *     dx[r][c] = dy[r][c] * g[n][c] + dx_beta * dx[r][c]
 *     dg[n][c] = sum_r dy[r][c] * x[r][c]
 *
 * dx_beta = 0 never reads the old dx. dy: M x d. x, g: those of the forward pass; CLPRUNE_NO_MAT
 * instead of x without dg, instead of g without dx. dx: M x d; dg: batch x d; CLPRUNE_NO_MAT skips
 * either. dx may be dy if dx_beta is 0; otherwise outputs must not overlap other arguments. Sums
 * run in a fixed order. */
CLPRUNE_API clprune_status clprune_gate_backward(clprune_context *context, size_t batch,
    float dx_beta, clprune_mat x, clprune_mat g, clprune_mat dy, clprune_mat dx, clprune_mat dg,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
