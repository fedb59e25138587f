/* 2-D convolution that keeps its input in any form (clprune_keep) that restores it. GELU_CODE and
 * MASK do not, and are refused: INVALID_ARGUMENT. The forward pass, dx and db are dense; only dw
 * depends on how the input was kept.
 *
 * Layout: channels last. `batch` images of height x width pixels with C channels are a matrix of
 * (batch * height * width) x C, pixel (y, x) of image n in row (n * height + y) * width + x. In a
 * store, an image is a sample of height * width rows, so that blocks lie along the channels.
 *
 * Weights are out x (kernel.height * kernel.width * in): w[o][(a * kernel.width + b) * in + c]
 * multiplies channel c of the pixel under tap (a, b). PyTorch has out x in x height x width;
 * clprune_conv2d_weights_from_oihw and _to_oihw convert.
 *
 *     y[n, i, j, o] = b[o] + sum over a, b, c of
 *                     w[o][a, b, c] * x[n, i * stride + a * dilation - padding,
 *                                          j * stride + b * dilation - padding, c]
 *
 * where pixels outside of the image are 0, and each axis has its own stride, padding, dilation. No
 * image is unfolded in memory (no im2col buffer).
 *
 * With groups, group g of the outputs reads group g of the channels alone, and `in` above, of
 * weights and sums, is in / groups: w is out x (kernel.height * kernel.width * in / groups).
 * Depthwise convolutions (groups = in = out) of at most 64 taps, 16 a row, stride and dilation at
 * most 4 along a row, have kernels of their own, which always compute in fp32; other groups run one
 * after the other. dw of groups is from restored images, unless the store is DENSE. */
#ifndef CLPRUNE_CONV2D_H
#define CLPRUNE_CONV2D_H

#include <stdbool.h>

#include "clprune/grads.h"
#include "clprune/saved.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes along both axes of an image. */
typedef struct clprune_extent {
    size_t height, width;
} clprune_extent;

/* A convolution layer; the caller destroys it. */
typedef struct clprune_conv2d clprune_conv2d;

/* Zero-initialise, then set the fields that you need. */
typedef struct clprune_conv2d_desc {
    size_t in, out;          /* channels */
    clprune_extent kernel;   /* taps */
    clprune_extent stride;   /* {0, 0} means {1, 1} */
    clprune_extent padding;  /* zeros at each of the two ends of an axis */
    clprune_extent dilation; /* {0, 0} means {1, 1} */
    size_t groups;           /* a divisor of in and out; 0 means 1 */
    clprune_keep keep;       /* of the input; zeros: a dense layer */
    uint64_t reserved[4];    /* zeros */
} clprune_conv2d_desc;

/* The size of y's images, (image + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1 along
 * each axis, rounded down; {0, 0} if the kernel is larger than the padded image, or for bad
 * arguments; clprune_last_error(NULL) has the reason. desc.keep is not checked. */
CLPRUNE_API clprune_extent clprune_conv2d_output(
    const clprune_conv2d_desc *desc, clprune_extent image);

/* On failure *layer is NULL. The layer holds no parameters; the caller owns them as matrices. One
 * layer takes any number of images of any size. Errors: INVALID_ARGUMENT, SIZE_OVERFLOW,
 * OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_conv2d_create(
    clprune_context *context, const clprune_conv2d_desc *desc, clprune_conv2d **layer);
CLPRUNE_API void clprune_conv2d_destroy(clprune_conv2d *layer); /* accepts NULL */

/* Creates a store for up to `batch` inputs of this layer, with desc.keep, booked under activations
 * as `name`; the caller destroys it (clprune_saved_destroy). POOLED and CENTRE_CELLS without a grid
 * take the image as their grid, so such a store is for images of this size. Errors as
 * clprune_saved_create. */
CLPRUNE_API clprune_status clprune_conv2d_saved_create(clprune_conv2d *layer, size_t batch,
    clprune_extent image, const char *name, clprune_saved **saved);

/* Whether clprune_conv2d_forward also takes an x of bf16 (clprune_mat.type), as
 * clprune_linear_takes_bf16; not of few channels, nor of an odd number, for which other kernels are
 * faster. `saved` is then NULL, and ld and offset are even, on tensor cores multiples of 8. Of
 * groups depthwise ones take it, which still compute in fp32. False for bad arguments. */
CLPRUNE_API bool clprune_conv2d_takes_bf16(
    const clprune_context *context, const clprune_conv2d_desc *desc, clprune_extent image);

/* Computes y for `batch` images and stores x in `saved`.
 *
 *     x: (batch * image.height * image.width) x in
 *     w: out x (kernel.height * kernel.width * in / groups)
 *     b: 1 x out, or CLPRUNE_NO_MAT
 *     y: (batch * output.height * output.width) x out
 *
 * saved: any store of the layer's context, which is reshaped if x has another shape
 * (clprune_saved_reshape), or NULL for inference. y must not overlap x, w, b or the memory of
 * saved. Errors: INVALID_ARGUMENT, INVALID_SIZE (also a kernel larger than the padded image, and a
 * store too small for x), SIZE_OVERFLOW (a side above 2^29 - 1), OUT_OF_DEVICE_MEMORY. */
CLPRUNE_API clprune_status clprune_conv2d_forward(clprune_conv2d *layer, size_t batch,
    clprune_extent image, clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y,
    clprune_saved *saved, cl_event *event);

/* Computes the gradients from dy, shaped as y, and the store; x itself is not needed:
 *
 *     dx[n, p, q, c]  = sum over o and the taps (a, b) that reach pixel (p, q) of
 *                       dy[n, i, j, o] * w[o][a, b, c] + dx_beta * dx[n, p, q, c]
 *     dw[o][a, b, c]  = sum over n, i, j of dy[n, i, j, o] * saved pixel under the tap, channel c
 *                       + beta * dw[o][a, b, c]
 *     db[o]           = sum over n, i, j of dy[n, i, j, o] + beta * db[o]
 *
 * beta = 0 overwrites dw and db and never reads them; beta = 1 accumulates. dx_beta does the same
 * for dx: 1 adds to the gradient of a shortcut. CLPRUNE_NO_MAT skips dx, dw or db; saved may be
 * NULL if dw is skipped. dx, dw and db must overlap neither dy nor w, nor the memory of saved.
 *
 * How dw reads the store. PRUNED multiplies only the kept blocks; CPUs do so for blocks of one row.
 * POOLED multiplies once per cell and tap, by the sum of dy over the results whose tap lies in the
 * cell. GPUs read QUANTISED as codes. All else is restored, some images at a time; on CPUs also
 * images with more pixels a row than a panel of dy holds (hundreds). Errors as
 * clprune_conv2d_forward; INVALID_ARGUMENT also for samples that were never stored. */
CLPRUNE_API clprune_status clprune_conv2d_backward(clprune_conv2d *layer, size_t batch,
    clprune_extent image, const clprune_saved *saved, clprune_mat dy, clprune_mat w,
    const clprune_grads *grads, cl_event *event);

/* Converts weights in host memory from PyTorch's order, out x in x height x width, and back; in: of
 * a group.
 * The arrays have out * in * kernel.height * kernel.width floats and must not overlap. Errors:
 * INVALID_ARGUMENT (NULL), SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_conv2d_weights_from_oihw(
    size_t out, size_t in, clprune_extent kernel, const float *oihw, float *weights);
CLPRUNE_API clprune_status clprune_conv2d_weights_to_oihw(
    size_t out, size_t in, clprune_extent kernel, const float *weights, float *oihw);

#ifdef __cplusplus
}
#endif
#endif
