/* MASK: one bit an element, set where x is positive or NaN; see clprune/relu.h. */
#include "clprune/relu.h"
#include "core/checked.h"
#include "nn/form.h"
#include "runtime/check.h"
#include "runtime/scratch.h"

static clprune_status mask_sizes(
    clprune_context *context, const clprune__kept *kept, clprune_relu_mask_sizes *mask)
{
    clprune_status status = CLPRUNE_SUCCESS;
    size_t rows;
    REQUIRE(clprune__mul(kept->batch, kept->rows, &rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu rows", kept->batch, kept->rows);
    status = clprune_relu_mask_size_query(rows, kept->cols, mask);
    REQUIRE(status == CLPRUNE_SUCCESS, status, "%s", clprune_last_error(NULL));
done:
    return status;
}

static clprune_status sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *found)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_relu_mask_sizes mask;
    TRY(mask_sizes(context, kept, &mask));
    found->bytes = found->values_bytes = mask.bytes;
done:
    return status;
}

clprune_mat clprune__mask_mat(const clprune__kept *kept, clprune__range range)
{
    clprune_relu_mask_sizes mask;
    if (mask_sizes(NULL, kept, &mask) != CLPRUNE_SUCCESS)
        return CLPRUNE_NO_MAT; /* not of a store: its sizes were computed when it was made */
    clprune_mat all = clprune_mat_of(kept->buffer, kept->batch * kept->rows, mask.cols);
    all.offset = kept->offset / sizeof(float);
    return clprune_mat_rows(all, range.first * kept->rows, range.count * kept->rows);
}

/* ReLU itself is made on the way, and dropped. */
static clprune_status store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    (void)scores;
    const size_t step = clprune__chunk_samples(kept->rows * kept->cols, range.count);
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    clprune_mat room;
    TRY(clprune__scratch_mat(context, step * kept->rows, kept->cols, &room));
    for (size_t i = 0; i < range.count; i += step) {
        const size_t count = clprune__min(step, range.count - i), rows = count * kept->rows;
        TRY(clprune_relu_forward(context, clprune_mat_rows(x, i * kept->rows, rows), CLPRUNE_NO_MAT,
            clprune_mat_rows(room, 0, rows),
            clprune__mask_mat(kept, (clprune__range){range.first + i, count}),
            i + count == range.count ? event : NULL));
    }
    if (range.count == 0)
        TRY(clprune__empty_event(context, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}

/* dx = dy where the bit is set, of a dy of ones. */
static clprune_status restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune_mat_fill(context, 1.0f, x, NULL));
    TRY(clprune_relu_backward(
        context, 0.0f, x, clprune__mask_mat(kept, range), x, CLPRUNE_NO_MAT, event));
done:
    return status;
}

const clprune__form clprune__form_mask = {
    .name = "mask", .sizes = sizes, .store = store, .restore = restore};
