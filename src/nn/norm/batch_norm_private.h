/* The second stage of a batch's moments. */
#ifndef CLPRUNE_NN_BATCH_NORM_PRIVATE_H
#define CLPRUNE_NN_BATCH_NORM_PRIVATE_H

#include "clprune/batch_norm.h"

/* As clprune_batch_norm_moments, from partial moments. Group g has rows [g * group_rows, (g + 1) *
 * group_rows) of x; the last group ends at `rows`. Rows 2 g and 2 g + 1 of `partial` are its mean
 * and its m2. partial: (2 * ceil(rows / group_rows)) x C. */
clprune_status clprune__batch_norm_merge(clprune_context *context, size_t rows_before, size_t rows,
    size_t group_rows, clprune_mat partial, clprune_mat mean, clprune_mat m2, cl_event *event);

#endif
