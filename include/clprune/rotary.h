/* Rotary positions (arXiv 2104.09864), as Llama's: pairs of a head's features are turned by an
 * angle that grows with the row, so that products of queries and keys depend on the distance of
 * their rows.
 *
 * The first e columns of a head are turned, in Llama all of them. Columns i and j = e / 2 + i, i <
 * e / 2, are a pair; with `adjacent`, as in GPT-J, columns 2 i and 2 i + 1. In row q of a sample
 * the pair is turned by the angle t = q * theta^(-2 i / e):
 *
 *     y[i] = x[i] * cos t - x[j] * sin t
 *     y[j] = x[j] * cos t + x[i] * sin t */
#ifndef CLPRUNE_ROTARY_H
#define CLPRUNE_ROTARY_H

#include <stdbool.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Turns the first `turned` columns of each of `heads` heads, which are the first heads * head_cols
 * columns, and copies all others. x, y: (batch * rows) x cols, cols >= heads * head_cols; y may be
 * x. turned is even and at most head_cols, theta above 1: Llama takes 1e4. Angles are exact to
 * 2^-24 of a turn in any row. Takes rows * turned floats of scratch. Errors: INVALID_ARGUMENT
 * (theta), INVALID_SIZE (turned, rows of x that batch does not divide, too few columns). */
CLPRUNE_API clprune_status clprune_rotary_forward(clprune_context *context, size_t batch,
    size_t heads, size_t head_cols, size_t turned, float theta, bool adjacent, clprune_mat x,
    clprune_mat y, cl_event *event);

/* The same by the opposite angle: from dy, the gradient of y, that of x. dx may be dy. */
CLPRUNE_API clprune_status clprune_rotary_backward(clprune_context *context, size_t batch,
    size_t heads, size_t head_cols, size_t turned, float theta, bool adjacent, clprune_mat dy,
    clprune_mat dx, cl_event *event);

/* The same by other angles. table: rows x turned; a row has the cosines of its turned / 2 pairs,
 * then their sines, all times any factor, which y then has, too. back: by the opposite angles, as
 * _backward. Takes no scratch. Errors: INVALID_SIZE (as above; a table of other rows),
 * INVALID_ARGUMENT (no table). */
CLPRUNE_API clprune_status clprune_rotary_by(clprune_context *context, size_t batch, size_t heads,
    size_t head_cols, bool adjacent, bool back, clprune_mat table, clprune_mat x, clprune_mat y,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
