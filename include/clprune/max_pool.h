/* Max pooling of channels-last images (the layout of conv2d.h), which keeps 4 bits an element of y
 * for its gradient: the tap that had the maximum. PyTorch keeps an index of 64 bits.
 *
 *     const clprune_max_pool_desc desc = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
 *     const clprune_extent output = clprune_max_pool_output(&desc, image);
 *     clprune_max_pool_size_query(batch * output.height * output.width, C, &sizes);
 *     clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "positions", sizes.rows, sizes.cols,
 *         &positions);
 *     clprune_max_pool_forward(context, &desc, batch, image, x, y, positions, NULL);
 *     clprune_max_pool_backward(context, &desc, batch, image, dy, positions, dx, NULL);
 *
 * Global average pooling is clprune_token_mean_forward (token_mean.h). */
#ifndef CLPRUNE_MAX_POOL_H
#define CLPRUNE_MAX_POOL_H

#include "clprune/batch_norm.h"
#include "clprune/conv2d.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise, then set the fields that you need. */
typedef struct clprune_max_pool_desc {
    clprune_extent kernel;  /* taps */
    clprune_extent stride;  /* {0, 0} means the kernel's size */
    clprune_extent padding; /* at each of the two ends of an axis; at most half of the kernel */
    bool ceil; /* a last window may begin in the image and end behind its padding */
    uint64_t reserved[4]; /* zeros */
} clprune_max_pool_desc;

/* The size of y's images, (image + 2 * padding - kernel) / stride + 1 along each axis, rounded
 * down, or with `ceil` up unless no tap of the last window is inside; {0, 0} if the kernel is
 * larger than the padded image, or for bad arguments; clprune_last_error(NULL) has the reason. */
CLPRUNE_API clprune_extent clprune_max_pool_output(
    const clprune_max_pool_desc *desc, clprune_extent image);

/* Positions are kept in a clprune_mat with a row for each row of y, whose elements are 8 positions
 * of 4 bits instead of floats. Position c of a row is in byte c / 2, in the lower half for even c;
 * tap (a, b) of the kernel is position a * kernel.width + b. A row is padded with zero bits to
 * whole multiples of 16 positions. Create it with clprune_mat_create; clprune_mat_rows takes rows
 * of it. */
typedef struct clprune_max_pool_sizes {
    size_t rows, cols; /* of the matrix: y's rows; 2 * ceil(C / 16) */
    size_t bytes;
} clprune_max_pool_sizes;

/* The sizes of the positions of a y of rows x cols. On failure *sizes is zeroed. Errors:
 * INVALID_ARGUMENT, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_max_pool_size_query(
    size_t rows, size_t cols, clprune_max_pool_sizes *sizes);

/* y[n, i, j, c] = the maximum over the taps (a, b) of
 *                 x[n, i * stride + a - padding, j * stride + b - padding, c],
 * where each axis has its own stride and padding and pixels outside of the image do not count. As
 * in PyTorch, the first of several equal maxima gets the gradient, and a NaN in the window makes y
 * NaN; the last NaN gets the gradient. x: (batch * image.height * image.width) x C;
 * y: (batch * output.height * output.width) x C; positions: y's rows x sizes.cols, or
 * CLPRUNE_NO_MAT for inference. No overlap. Errors: INVALID_SIZE, INVALID_ARGUMENT (also: positions
 * of a kernel of more than 16 taps, padding of more than half of the kernel, a kernel larger than
 * the padded image). */
CLPRUNE_API clprune_status clprune_max_pool_forward(clprune_context *context,
    const clprune_max_pool_desc *desc, size_t batch, clprune_extent image, clprune_mat x,
    clprune_mat y, clprune_mat positions, cl_event *event);

/* Batch norm, ReLU and max pooling in one pass over x. With z = bn(x) as in
 * clprune_batch_norm_forward, y = max(the maximum of z over the taps, 0). Where y is 0, ReLU passes
 * no gradient, and the position is 15, which is no tap. clprune_max_pool_backward with these
 * positions gives dz, the gradient of z. With positions, the kernel has at most 15 taps. bn: 1 x C
 * each. Otherwise as clprune_max_pool_forward. */
CLPRUNE_API clprune_status clprune_max_pool_norm_forward(clprune_context *context,
    const clprune_max_pool_desc *desc, const clprune_batch_norm *bn, size_t batch,
    clprune_extent image, clprune_mat x, clprune_mat y, clprune_mat positions, cl_event *event);

/* dx[pixel] = the sum of dy over the windows whose position is the pixel. Each element of dx is
 * written once; sums run in a fixed order. Shapes as above; dx must not overlap an input. */
CLPRUNE_API clprune_status clprune_max_pool_backward(clprune_context *context,
    const clprune_max_pool_desc *desc, size_t batch, clprune_extent image, clprune_mat dy,
    clprune_mat positions, clprune_mat dx, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
