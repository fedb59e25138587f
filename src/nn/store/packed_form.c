#include "nn/store/packed_form.h"

#include "core/checked.h"
#include "nn/store/chunks.h"
#include "runtime/context/fail.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

static const clprune__packing *packing_of(const clprune__kept *kept)
{
    return kept->form->packing;
}

static clprune_status measure(
    clprune_context *context, const clprune__kept *kept, size_t *words, size_t *bytes)
{
    size_t rows;
    REQUIRE(clprune__mul(kept->batch, kept->rows, &rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu rows overflow size_t", kept->batch, kept->rows);
    const clprune_status status =
        packing_of(kept)->sizes(rows, kept->cols, kept->keep.bits, words, bytes);
    REQUIRE(status == CLPRUNE_SUCCESS, status, "%s", clprune_last_error(NULL));
    return status;
}

clprune_status clprune__packed_sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *sizes)
{
    size_t words, bytes;
    TRY(measure(context, kept, &words, &bytes));
    sizes->bytes = sizes->values_bytes = bytes;
    return CLPRUNE_SUCCESS;
}

clprune_mat clprune__packed_mat(const clprune__kept *kept, clprune__range range)
{
    size_t words, bytes;
    if (measure(NULL, kept, &words, &bytes) != CLPRUNE_SUCCESS)
        return CLPRUNE_NO_MAT; /* cannot happen in a store: its sizes were checked on creation */
    clprune_mat all = clprune_mat_of(kept->buffer, kept->batch * kept->rows, words);
    all.offset = kept->offset / sizeof(float);
    return clprune_mat_rows(all, range.first * kept->rows, range.count * kept->rows);
}

/* Writes the activation to scratch and drops it. */
clprune_status clprune__packed_store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event)
{
    SCRATCH_SCOPE(context);
    clprune__chunks chunks;
    (void)scores;
    TRY(clprune__chunks_begin(context, kept->rows, kept->cols, range, &chunks));
    while (clprune__chunks_next(&chunks))
        TRY(packing_of(kept)->forward(context, kept->keep.bits,
            clprune__chunk_of(&chunks, x, kept->rows), chunks.room,
            clprune__packed_mat(kept, chunks.range), chunks.last ? event : NULL));
    return CLPRUNE_SUCCESS;
}

/* The derivative: the backward pass of a gradient of ones. */
clprune_status clprune__packed_restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    TRY(clprune__mat_fill(context, 1.0f, x, NULL));
    return packing_of(kept)->backward(
        context, kept->keep.bits, clprune__packed_mat(kept, range), x, event);
}
