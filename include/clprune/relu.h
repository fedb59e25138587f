/* ReLU, y = max(x, 0). Its gradient needs one bit per element: whether x was positive.
 *
 *     clprune_relu_mask_size_query(rows, cols, &sizes);
 *     clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "mask", rows, sizes.cols, &mask);
 *     clprune_relu_forward(context, x, CLPRUNE_NO_MAT, y, mask, NULL);
 *     clprune_relu_backward(context, 0, dy, mask, dx, CLPRUNE_NO_MAT, NULL);   // needs no x or y
 *
 * Keeping y instead takes 32 times as many bytes. A layer after ReLU that keeps its input pruned
 * saves memory only if ReLU does not keep the dense y. */
#ifndef CLPRUNE_RELU_H
#define CLPRUNE_RELU_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The mask is a clprune_mat of M rows whose elements are 32 bits instead of floats. Element c of a
 * row of x is bit c % 8 of byte c / 8; a row is padded with zero bits. Create it with
 * clprune_mat_create; clprune_mat_rows takes rows of it. */
typedef struct clprune_relu_mask_sizes {
    size_t cols;  /* of the mask: ceil(d / 32) */
    size_t bytes; /* of all M rows */
} clprune_relu_mask_sizes;

/* The sizes of the mask of a rows x cols matrix. On failure *sizes is zeroed. Errors:
 * INVALID_ARGUMENT, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_relu_mask_size_query(
    size_t rows, size_t cols, clprune_relu_mask_sizes *sizes);

/* y = max(x, 0); -0 gives 0, NaN gives NaN. With b, x + b takes the place of x; use b after a
 * linear layer without its bias, see clprune_linear_fuses_bias. x, y: M x d; y may be x, otherwise
 * x is unchanged. b: 1 x d, or CLPRUNE_NO_MAT. mask: M x sizes.cols, or CLPRUNE_NO_MAT for
 * inference; a bit is set where the input is positive or NaN. b and mask must not overlap other
 * arguments. */
CLPRUNE_API clprune_status clprune_relu_forward(clprune_context *context, clprune_mat x,
    clprune_mat b, clprune_mat y, clprune_mat mask, cl_event *event);

/* dx = dy where the mask's bit is set, else 0 (also at x = 0). The same pass over memory computes
 * db[c] = sum_r dx[r][c] + beta * db[c], the bias gradient of the layer that made x. beta = 0 never
 * reads db; beta = 1 accumulates. dy, dx: M x d; dx may be dy. mask: M x sizes.cols, from
 * clprune_relu_forward. db: 1 x d, must not overlap other arguments; CLPRUNE_NO_MAT skips it. Sums
 * run in a fixed order. */
CLPRUNE_API clprune_status clprune_relu_backward(clprune_context *context, float beta,
    clprune_mat dy, clprune_mat mask, clprune_mat dx, clprune_mat db, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
