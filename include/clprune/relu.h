/* The mask of ReLU, y = max(x, 0), whose gradient needs one bit per element: whether x was
 * positive. Activations (clprune/activation.h) with a store of form MASK write and read it, and
 * batch norm with ReLU (clprune/batch_norm.h).
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
 * row of x is bit c % 8 of byte c / 8, set where the input is positive or NaN; a row is padded with
 * zero bits. Create it with clprune_mat_create; clprune_mat_rows takes rows of it. */
typedef struct clprune_relu_mask_sizes {
    size_t cols;  /* of the mask: ceil(d / 32) */
    size_t bytes; /* of all M rows */
} clprune_relu_mask_sizes;

/* The sizes of the mask of a rows x cols matrix. On failure *sizes is zeroed. Errors:
 * INVALID_ARGUMENT, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_relu_mask_size_query(
    size_t rows, size_t cols, clprune_relu_mask_sizes *sizes);

#ifdef __cplusplus
}
#endif
#endif
