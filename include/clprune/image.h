/* Layouts of images. Programs load images as planes (NCHW); convolutions take channels last. */
#ifndef CLPRUNE_IMAGE_H
#define CLPRUNE_IMAGE_H

#include "clprune/conv2d.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[(n * height + i) * width + j][c] = images[n][(c * height + i) * width + j]. images: batch x
 * (channels * height * width); y: (batch * height * width) x channels; no overlap. Errors:
 * INVALID_ARGUMENT, INVALID_SIZE, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_image_channels_last(clprune_context *context, size_t batch,
    size_t channels, clprune_extent image, clprune_mat images, clprune_mat y, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
