/* GELU in its erf form: g = h * Phi(h), Phi(h) = (1 + erf(h / sqrt 2)) / 2 (arXiv 1606.08415). */
#ifndef CLPRUNE_GELU_H
#define CLPRUNE_GELU_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* g = h * Phi(h). With b, h becomes h + b first, in the same pass over memory, with the same bits
 * as in two passes. Use b after a linear layer without its bias. h, g: M x d; g may
 * be h. b: 1 x d, must not overlap h or g; with CLPRUNE_NO_MAT h is unchanged and
 * may be of bf16. So may g. */
CLPRUNE_API clprune_status clprune_gelu_forward(
    clprune_context *context, clprune_mat h, clprune_mat b, clprune_mat g, cl_event *event);

/* dh = dg * (Phi(h) + h * phi(h)), with phi the standard normal density. The same pass over memory
 * computes db[c] = sum_r dh[r][c] + beta * db[c], the bias gradient of the layer that made h.
 * beta = 0 never reads db; beta = 1 accumulates. h, dg, dh: M x d; dh may be dg or h. db: 1 x d,
 * must not overlap the others; CLPRUNE_NO_MAT skips it. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_gelu_backward(clprune_context *context, float beta,
    clprune_mat h, clprune_mat dg, clprune_mat dh, clprune_mat db, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
