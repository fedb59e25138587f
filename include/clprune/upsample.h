/* Nearest-neighbour upsampling of channels-last images (the layout of conv2d.h) by whole factors:
 * each pixel becomes a block of equal ones. Nothing is kept for the gradient. */
#ifndef CLPRUNE_UPSAMPLE_H
#define CLPRUNE_UPSAMPLE_H

#include "clprune/conv2d.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[n, i, j] = x[n, i / factor.height, j / factor.width], rounded down. x: (batch * image.height *
 * image.width) x C; y: (batch * image.height * factor.height * image.width * factor.width) x C,
 * apart from x. Errors: INVALID_ARGUMENT (a factor of 0), INVALID_SIZE, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_upsample_forward(clprune_context *context, clprune_extent factor,
    size_t batch, clprune_extent image, clprune_mat x, clprune_mat y, cl_event *event);

/* dx[n, i, j] = sum over a < factor.height, b < factor.width of
 *               dy[n, i * factor.height + a, j * factor.width + b]
 *
 * dx has the shape of x, dy that of y; they lie apart. Errors: the same. */
CLPRUNE_API clprune_status clprune_upsample_backward(clprune_context *context,
    clprune_extent factor, size_t batch, clprune_extent image, clprune_mat dy, clprune_mat dx,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
