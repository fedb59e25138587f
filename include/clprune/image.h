/* Layouts of images. Programs load images as planes (NCHW) of bytes; convolutions take channels
 * last. */
#ifndef CLPRUNE_IMAGE_H
#define CLPRUNE_IMAGE_H

#include "clprune/conv2d.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Images of one byte a pixel and channel, which functions normalise as they read them. They take a
 * quarter of the memory and of the transfer time of floats. Pixel (i, j) of channel c of image n
 * has the value
 *
 *     levels[c][byte offset + ((n * channels + c) * height + i) * width + j of buffer]
 *
 * levels: channels x 256; level v of channel c is (v / 255 - mean[c]) / std[c] for the usual
 * normalisation. Results have the same bits as with a matrix of these values. To pass the images
 * from `first` on, add first * channels * height * width to offset. The caller owns both buffers.
 */
typedef struct clprune_image_bytes {
    cl_mem buffer;
    size_t offset; /* bytes; any */
    clprune_mat levels;
} clprune_image_bytes;

/* y[(n * height + i) * width + j][c] = the value of pixel (i, j) of channel c of image n. y: (batch
 * * height * width) x channels; it overlaps neither the bytes nor the levels. Errors:
 * INVALID_ARGUMENT, INVALID_SIZE, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_image_bytes_channels_last(clprune_context *context, size_t batch,
    size_t channels, clprune_extent image, clprune_image_bytes images, clprune_mat y,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
