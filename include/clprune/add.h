/* The weighted sum of two matrices: residual connections without LayerScale, scaling, gradients
 * that are added. */
#ifndef CLPRUNE_ADD_H
#define CLPRUNE_ADD_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y = alpha * a + beta * b, as fma(beta, b, alpha * a). a, b, y: M x d; y may be a or b, and b may
 * be a. With b = CLPRUNE_NO_MAT, y = alpha * a, and beta is not used. A matrix with a factor of 0
 * is still read, so its Inf and NaN make y NaN. The gradients are da = alpha * dy and
 * db = beta * dy. */
CLPRUNE_API clprune_status clprune_add(clprune_context *context, float alpha, clprune_mat a,
    float beta, clprune_mat b, clprune_mat y, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
