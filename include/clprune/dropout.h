/* Dropout (arXiv 1207.0580), scaled so that the mean stays: y = x * m / (1 - rate). No mask is
 * kept. */
#ifndef CLPRUNE_DROPOUT_H
#define CLPRUNE_DROPOUT_H

#include <stdint.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[r][c] = m[r][c] != 0 ? x[r][c] / (1 - rate) : 0, where m is 0 with probability `rate` and else
 * 1. x, y: M x d; y may be x.
 *
 * m is a hash of seed, first_row + r and c. The backward pass makes the same mask again: call this
 * function with dy and dx for x and y, and the same rate, seed and first_row. Rows in several calls
 * give the bits of one call, if first_row counts on. Every device draws the same mask. For another
 * mask, take another seed for each step and each layer.
 *
 * rate in [0, 1), good to 2^-32; 0 copies x. An Inf or NaN that is dropped becomes 0. */
CLPRUNE_API clprune_status clprune_dropout(clprune_context *context, float rate, uint64_t seed,
    uint64_t first_row, clprune_mat x, clprune_mat y, cl_event *event);

/* Stochastic depth (arXiv 1603.09382): as clprune_dropout, but whole samples are kept or dropped.
 * x has the rows of `batch` samples, which divides them; m of sample n is a hash of seed and first
 * + n. Errors: also INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_drop_path(clprune_context *context, float rate, uint64_t seed,
    size_t batch, uint64_t first, clprune_mat x, clprune_mat y, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
