#include "nn/store/chunks.h"

#include "core/checked.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

#define CHUNK_BYTES ((size_t)8 << 20)

clprune_status clprune__chunks_begin(clprune_context *context, size_t rows, size_t cols,
    clprune__range range, clprune__chunks *chunks)
{
    const size_t most = CHUNK_BYTES / sizeof(float) / clprune__max(rows * cols, 1);
    const size_t step = clprune__min(range.count, clprune__max(most, 1));
    *chunks =
        (clprune__chunks){.range = {range.first, 0}, .all = range, .step = step, .rows = rows};
    return clprune__scratch_mat(context, step * rows, cols, &chunks->scratch);
}

bool clprune__chunks_next(clprune__chunks *chunks)
{
    if (chunks->last)
        return false;
    chunks->before += chunks->range.count;
    const size_t left = chunks->all.count - chunks->before;
    chunks->range =
        (clprune__range){chunks->all.first + chunks->before, clprune__min(chunks->step, left)};
    chunks->last = chunks->range.count == left;
    chunks->room = clprune_mat_rows(chunks->scratch, 0, chunks->range.count * chunks->rows);
    return true;
}

clprune_mat clprune__chunk_of(const clprune__chunks *chunks, clprune_mat mat, size_t rows)
{
    return clprune_mat_rows(mat, chunks->before * rows, chunks->range.count * rows);
}
