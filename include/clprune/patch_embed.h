/* Patch embedding: a convolution whose kernel size equals its stride, computed as a product of the
 * image's patches with the weight. */
#ifndef CLPRUNE_PATCH_EMBED_H
#define CLPRUNE_PATCH_EMBED_H

#include "clprune/gemm.h"
#include "clprune/grads.h"
#include "clprune/image.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Images are `channels` planes of height x width (NCHW); height and width are multiples of patch.
 * The p = (height / patch) * (width / patch) tokens are the patches, row by row. */
typedef struct clprune_patch_embed_desc {
    size_t channels, height, width;
    size_t patch;
    size_t out;           /* features d of a token */
    uint64_t reserved[4]; /* zeros */
} clprune_patch_embed_desc;

/* y = cut(images) * w^T + b. cut(images) has a row for each patch; it lies in scratch. images:
 * batch x (channels * height * width); w: out x (channels * patch * patch), the convolution's
 * weight in PyTorch's order; b: 1 x out; y: (batch * p) x out. Errors: INVALID_ARGUMENT,
 * INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_patch_embed_forward(clprune_context *context,
    const clprune_patch_embed_desc *desc, size_t batch, clprune_mat images, clprune_mat w,
    clprune_mat b, clprune_mat y, cl_event *event);

/* The same from images of bytes. y overlaps neither the bytes nor the levels. */
CLPRUNE_API clprune_status clprune_patch_embed_forward_bytes(clprune_context *context,
    const clprune_patch_embed_desc *desc, size_t batch, clprune_image_bytes images, clprune_mat w,
    clprune_mat b, clprune_mat y, cl_event *event);

/* dw = dy^T * cut(images) + beta * dw; db = sum of the rows of dy + beta * db; dx, the gradient of
 * the images = the rows of dy * w put back as patches, overwritten: dx_beta is 0. Shapes as in the
 * forward pass; dy as y, dx as images. To bound the scratch, process a batch in parts. */
CLPRUNE_API clprune_status clprune_patch_embed_backward(clprune_context *context,
    const clprune_patch_embed_desc *desc, size_t batch, clprune_mat images, clprune_mat dy,
    clprune_mat w, const clprune_grads *grads, cl_event *event);

/* The same from images of bytes, which have no gradient: w is not needed, dx is CLPRUNE_NO_MAT. */
CLPRUNE_API clprune_status clprune_patch_embed_backward_bytes(clprune_context *context,
    const clprune_patch_embed_desc *desc, size_t batch, clprune_image_bytes images, clprune_mat dy,
    const clprune_grads *grads, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
