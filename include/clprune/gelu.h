/* GELU in its erf form: g = h * Phi(h), Phi(h) = (1 + erf(h / sqrt 2)) / 2 (arXiv 1606.08415). */
#ifndef CLPRUNE_GELU_H
#define CLPRUNE_GELU_H

#include <stdbool.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* g = h * Phi(h). With b, h <- h + b comes first, in the same pass over memory and with the bits of
 * two: for a linear layer that was asked to leave its bias out, see clprune_linear_fuses_bias.
 * h, g: M x d; g may be h. b: 1 x d, apart from both, or CLPRUNE_NO_MAT: then h stays as it is. */
CLPRUNE_API clprune_status clprune_gelu_forward(
    clprune_context *context, clprune_mat h, clprune_mat b, clprune_mat g, cl_event *event);

/* dh = dg * (Phi(h) + h * phi(h)), phi the standard normal density, and in the same pass over
 * memory db[c] = sum_r dh[r][c] + beta * db[c], the bias gradient of the layer that made h. With
 * beta 0 db is not read; 1 adds to it, for passes in parts. h, dg, dh: M x d; dh may be dg or h.
 * db: 1 x d, apart from all, or CLPRUNE_NO_MAT to skip it. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_gelu_backward(clprune_context *context, float beta,
    clprune_mat h, clprune_mat dg, clprune_mat dh, clprune_mat db, cl_event *event);

/* The backward pass where g was not kept: dh and db as above and, in the same pass, g = h * Phi(h)
 * once more, with the bits of clprune_gelu_forward. g may be h, dh may be dg. */
CLPRUNE_API clprune_status clprune_gelu_backward_recompute(clprune_context *context, float beta,
    clprune_mat h, clprune_mat dg, clprune_mat g, clprune_mat dh, clprune_mat db, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
