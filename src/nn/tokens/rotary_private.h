/* Rotary positions of rows that are not the first of a sample. */
#ifndef CLPRUNE_ROTARY_PRIVATE_H
#define CLPRUNE_ROTARY_PRIVATE_H

#include <stdint.h>

#include "clprune/rotary.h"

/* clprune_rotary_forward of rows that are the rows from `first` on of longer samples: row q is
 * turned as row first + q. */
clprune_status clprune__rotary_forward_from(clprune_context *context, size_t first, size_t batch,
    size_t heads, size_t head_cols, size_t turned, float theta, bool adjacent, clprune_mat x,
    clprune_mat y, cl_event *event);

/* The table of clprune_rotary_by for the rows from `first` on, by the frequencies whose words are
 * `turns`, 1 x 2 * table.cols / 2: of each pair the low and the high half of 2^64 * its angle in
 * row 1, in turns. */
clprune_status clprune__rotary_table(
    clprune_context *context, size_t first, float factor, clprune_mat turns, clprune_mat table);

/* These words of one pair. angle: in radians. */
void clprune__rotary_turns(double angle, uint32_t words[2]);

#endif
