/* Works on samples of a store in scratch, some at a time:
 *
 *     clprune__chunks chunks;
 *     TRY(clprune__chunks_begin(context, rows, cols, range, &chunks));
 *     while (clprune__chunks_next(&chunks))
 *         ... chunks.range, chunks.room, clprune__chunk_of(&chunks, dy, rows) ...
 *
 * The scratch belongs to the caller's clprune__scratch_begin. An empty range has one chunk of no
 * samples, so a loop always enqueues its last command, which scales a sum and makes the event. */
#ifndef CLPRUNE_NN_CHUNKS_H
#define CLPRUNE_NN_CHUNKS_H

#include <stdbool.h>

#include "nn/store/form.h"

typedef struct clprune__chunks {
    /* The present chunk. */
    clprune__range range; /* its samples in the store */
    size_t before;        /* samples in earlier chunks: 0 for the first chunk */
    bool last;
    clprune_mat room; /* scratch: (range.count * rows) x cols, contents undefined */

    clprune__range all;
    size_t step, rows; /* samples of a full chunk; rows of a sample */
    clprune_mat scratch;
} clprune__chunks;

/* Takes scratch for samples of rows x cols: as many as 8 MiB hold, or one if it is larger, at most
 * range.count. */
clprune_status clprune__chunks_begin(clprune_context *context, size_t rows, size_t cols,
    clprune__range range, clprune__chunks *chunks);

/* Moves on to the next chunk; false after the last one. */
bool clprune__chunks_next(clprune__chunks *chunks);

/* The present chunk's rows of a matrix that has `rows` rows for each sample of the range. */
clprune_mat clprune__chunk_of(const clprune__chunks *chunks, clprune_mat mat, size_t rows);

#endif
