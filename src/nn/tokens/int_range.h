/* Labels and tokens out of range. */
#ifndef CLPRUNE_NN_INT_RANGE_H
#define CLPRUNE_NN_INT_RANGE_H

#include "clprune/matrix.h"

/* If one of the `rows` ints is outside [0, limit) and not `ignored`, poison, 1 x 1, becomes NaN,
 * and record, 2 ints, {row + 1, int} of the first one, unless its first int is not 0. ints are
 * checked already. */
clprune_status clprune__int_range(clprune_context *context, size_t rows, size_t limit,
    int32_t ignored, clprune_ints ints, clprune_ints record, clprune_mat poison);

#endif
