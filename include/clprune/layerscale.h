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

/* dt[r][c] = ls[c] * dy[r][c]; dls[c] = sum_r t[r][c] * dy[r][c]; overwritten. The gradient of x
 * is dy itself. dt may be t. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_layerscale_backward(clprune_context *context, clprune_mat t,
    clprune_mat ls, clprune_mat dy, clprune_mat dt, clprune_mat dls, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
