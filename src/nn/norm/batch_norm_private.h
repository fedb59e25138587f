/* The second stage of a batch's moments, and passes over an x that is kept as codes. */
#ifndef CLPRUNE_NN_BATCH_NORM_PRIVATE_H
#define CLPRUNE_NN_BATCH_NORM_PRIVATE_H

#include "clprune/batch_norm.h"
#include "ops/codes/quantise_private.h"

/* As clprune_batch_norm_moments, from partial moments. Group g has rows [g * group_rows, (g + 1) *
 * group_rows) of x; the last group ends at `rows`. Rows 2 g and 2 g + 1 of `partial` are its mean
 * and its m2. partial: (2 * ceil(rows / group_rows)) x C. */
clprune_status clprune__batch_norm_merge(clprune_context *context, size_t rows_before, size_t rows,
    size_t group_rows, clprune_mat partial, clprune_mat mean, clprune_mat m2, cl_event *event);

/* As the public functions; the caller has entered the context. With `codes` they take the place of
 * in->x, which is CLPRUNE_NO_MAT: the same bits as with a dense copy. No output overlaps them. */
clprune_status clprune__batch_norm_backward_sums(clprune_context *context, float beta,
    float sums_beta, const clprune_batch_norm_in *in, const clprune__quantised *codes,
    clprune_mat dz, clprune_mat sums, clprune_mat dgamma, clprune_mat dbeta, cl_event *event);
clprune_status clprune__batch_norm_backward_input(clprune_context *context, size_t rows,
    const clprune_batch_norm_in *in, const clprune__quantised *codes, clprune_mat sums,
    clprune_mat dx, cl_event *event);

/* As clprune_batch_norm_forward_gated or, without a mask, clprune_batch_norm_forward, from codes
 * apart from y. */
clprune_status clprune__batch_norm_forward_quantised(clprune_context *context,
    const clprune_batch_norm *bn, bool relu, const clprune__quantised *x, clprune_mat residual,
    clprune_mat mask, clprune_mat y, cl_event *event);

#endif
