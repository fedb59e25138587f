/* GELU in its erf form: g = h * Phi(h), Phi(h) = (1 + erf(h / sqrt 2)) / 2 (arXiv 1606.08415). */
#ifndef CLPRUNE_GELU_H
#define CLPRUNE_GELU_H

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

#ifdef __cplusplus
}
#endif
#endif
