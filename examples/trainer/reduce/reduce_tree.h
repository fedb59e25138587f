/*
 * reduce_tree.h: sums in a fixed order, and the slices of a window.
 *
 * The order is that of a binary counter: neighbours are added, then neighbouring sums, and so on:
 * ((r0 + r1) + (r2 + r3)) + (r4 + r5). One that has no neighbour waits for the next level. N ranks
 * with 2^k parts each, summed in this order on each rank and then over the ranks, thus give the
 * bits of one rank with N * 2^k parts.
 */
#ifndef TRAINER_REDUCE_TREE_H
#define TRAINER_REDUCE_TREE_H

#include <stddef.h>

typedef struct reduce_slice {
    size_t first, count; /* floats */
} reduce_slice;

/* The slice of a window of `count` floats that belongs to a rank. Together, slices are the window.
 * They begin at multiples of 256 and are equally long but for the last ones, which may be empty. */
reduce_slice reduce_slice_of(size_t count, int ranks, int rank);

/* Writes the sum of ranks >= 1 arrays of count floats to `to`, which may be one of them. Their
 * contents are lost. */
void reduce_tree(float *const *parts, int ranks, size_t count, float *to);

#endif
