/* GELU in its erf form: g = h * Phi(h), Phi(h) = (1 + erf(h / sqrt 2)) / 2 (arXiv 1606.08415). */
#ifndef CLPRUNE_GELU_H
#define CLPRUNE_GELU_H

#include <stdbool.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* h, g: M x d; g may be h. */
CLPRUNE_API clprune_status clprune_gelu_forward(
    clprune_context *context, clprune_mat h, clprune_mat g, cl_event *event);

/* dh = dg * (Phi(h) + h * phi(h)), phi the standard normal density. dh may be dg or h. */
CLPRUNE_API clprune_status clprune_gelu_backward(
    clprune_context *context, clprune_mat h, clprune_mat dg, clprune_mat dh, cl_event *event);

/* The backward pass where g was not kept, in one pass over memory: dh as above, g = h * Phi(h) once
 * more, with the bits of clprune_gelu_forward, and db[c] = sum_r dh[r][c], the bias gradient of the
 * layer that made h; with `accumulate` that is added to db, for passes in parts. g may be h, dh may
 * be dg. db: 1 x d. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_gelu_backward_recompute(clprune_context *context,
    bool accumulate, clprune_mat h, clprune_mat dg, clprune_mat g, clprune_mat dh, clprune_mat db,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
