/* Images of bytes as operands of the layers that read them; messages call them "images". Images of
 * floats. */
#ifndef CLPRUNE_NN_IMAGE_PRIVATE_H
#define CLPRUNE_NN_IMAGE_PRIVATE_H

#include "clprune/image.h"
#include "runtime/launch/launch.h"

/* Fails unless the buffer holds `batch` images of `size` bytes, batch * size of them in all, from
 * the offset on, and levels is channels x 256. */
clprune_status clprune__check_image_bytes(clprune_context *context, clprune_image_bytes images,
    size_t batch, size_t channels, size_t size);

/* Fails where `mat` may share memory with the first `count` bytes or with the levels. All have
 * passed their checks. */
clprune_status clprune__check_image_apart(clprune_context *context, const char *name,
    clprune_mat mat, clprune_image_bytes images, size_t count);

/* The kernel parameter IMAGE_BYTES(name) of image_bytes.clh. */
void clprune__arg_image_bytes(clprune__launch *launch, clprune_image_bytes images);

/* y[n * pixels + p][c] = x[n][c * pixels + p], for images of y.rows / x.rows pixels of y.cols
 * channels; both have passed their checks. */
clprune_status clprune__image_channels_last(
    clprune_context *context, clprune_mat x, clprune_mat y, cl_event *event);

#endif
