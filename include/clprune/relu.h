/* ReLU, y = max(x, 0), whose gradient needs one bit an element: where x was positive.
 *
 *     clprune_relu_mask_size_query(rows, cols, &sizes);
 *     clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "mask", rows, sizes.cols, &mask);
 *     clprune_relu_forward(context, x, CLPRUNE_NO_MAT, y, mask, NULL);
 *     clprune_relu_backward(context, 0, dy, mask, dx, CLPRUNE_NO_MAT, NULL);   // x, y are long
 * gone
 *
 * Keeping y instead takes 32 times as much: a layer behind ReLU that keeps its input pruned saves
 * memory only if the gradient of ReLU does not need the dense y. */
#ifndef CLPRUNE_RELU_H
#define CLPRUNE_RELU_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The mask is a clprune_mat of M rows whose elements are 32 bits, not floats: element c of a row of
 * x is bit c % 8 of byte c / 8, and a row is padded with zero bits. clprune_mat_create makes one,
 * clprune_mat_rows takes rows of it. */
typedef struct clprune_relu_mask_sizes {
    size_t cols;  /* of the mask: ceil(d / 32) */
    size_t bytes; /* of its M rows */
} clprune_relu_mask_sizes;

/* The mask of an M x d matrix. On failure *sizes is zeroed. Errors: INVALID_ARGUMENT,
 * SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_relu_mask_size_query(
    size_t rows, size_t cols, clprune_relu_mask_sizes *sizes);

/* y = max(x, 0), 0 for -0, and NaN for NaN. With b, x + b takes the place of x: for a linear layer
 * that left its bias out, see clprune_linear_fuses_bias. x, y: M x d; y may be x, which else stays
 * as it is. b: 1 x d, apart from all, or CLPRUNE_NO_MAT. mask: M x sizes.cols, apart from all; a
 * bit is set where the input is positive or NaN. CLPRUNE_NO_MAT keeps none. */
CLPRUNE_API clprune_status clprune_relu_forward(clprune_context *context, clprune_mat x,
    clprune_mat b, clprune_mat y, clprune_mat mask, cl_event *event);

/* dx = dy where the bit of the mask is set, else 0, as at x = 0. In the same pass over memory
 * db[c] = sum_r dx[r][c] + beta * db[c], the bias gradient of the layer that made x. With beta 0 db
 * is not read; 1 adds to it, for passes in parts. dy, dx: M x d; dx may be dy. mask: as
 * clprune_relu_forward wrote it, M x sizes.cols. db: 1 x d, apart from all, or CLPRUNE_NO_MAT to
 * skip it. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_relu_backward(clprune_context *context, float beta,
    clprune_mat dy, clprune_mat mask, clprune_mat dx, clprune_mat db, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
