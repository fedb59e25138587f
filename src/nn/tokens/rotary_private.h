/* Rotary positions of rows that are not the first of a sample. */
#ifndef CLPRUNE_ROTARY_PRIVATE_H
#define CLPRUNE_ROTARY_PRIVATE_H

#include "clprune/rotary.h"

/* clprune_rotary_forward of rows that are the rows from `first` on of longer samples: row q is
 * turned as row first + q. */
clprune_status clprune__rotary_forward_from(clprune_context *context, size_t first, size_t batch,
    size_t heads, size_t head_cols, size_t turned, float theta, bool adjacent, clprune_mat x,
    clprune_mat y, cl_event *event);

#endif
