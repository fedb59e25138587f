/* GELU_CODE: GELU's derivative at x, as codes; see clprune/gelu_code.h. */
#include "clprune/gelu_code.h"
#include "core/checked.h"
#include "nn/form.h"
#include "runtime/check.h"
#include "runtime/scratch.h"

static clprune_status settle(clprune_context *context, clprune_keep *keep)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(keep->bits == 2 || keep->bits == 4 || keep->bits == 8, CLPRUNE_INVALID_ARGUMENT,
        "bits is %u, expected 2, 4 or 8", keep->bits);
done:
    return status;
}

static clprune_status code_sizes(
    clprune_context *context, const clprune__kept *kept, clprune_gelu_code_sizes *codes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    size_t rows;
    REQUIRE(clprune__mul(kept->batch, kept->rows, &rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu rows overflow size_t", kept->batch, kept->rows);
    status = clprune_gelu_code_size_query(rows, kept->cols, kept->keep.bits, codes);
    REQUIRE(status == CLPRUNE_SUCCESS, status, "%s", clprune_last_error(NULL));
done:
    return status;
}

static clprune_status sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *found)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_gelu_code_sizes codes;
    TRY(code_sizes(context, kept, &codes));
    found->bytes = found->values_bytes = codes.bytes;
done:
    return status;
}

clprune_mat clprune__codes_mat(const clprune__kept *kept, clprune__range range)
{
    clprune_gelu_code_sizes codes;
    if (code_sizes(NULL, kept, &codes) != CLPRUNE_SUCCESS)
        return CLPRUNE_NO_MAT; /* not of a store: its sizes were computed when it was made */
    clprune_mat all = clprune_mat_of(kept->buffer, kept->batch * kept->rows, codes.cols);
    all.offset = kept->offset / sizeof(float);
    return clprune_mat_rows(all, range.first * kept->rows, range.count * kept->rows);
}

/* GELU itself is made on the way, and dropped. */
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
        TRY(clprune_gelu_code_forward(context, kept->keep.bits,
            clprune_mat_rows(x, i * kept->rows, rows), CLPRUNE_NO_MAT,
            clprune_mat_rows(room, 0, rows),
            clprune__codes_mat(kept, (clprune__range){range.first + i, count}),
            i + count == range.count ? event : NULL));
    }
    if (range.count == 0)
        TRY(clprune__empty_event(context, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}

/* dh = dg * derivative, of a dg of ones. */
static clprune_status restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune_mat_fill(context, 1.0f, x, NULL));
    TRY(clprune_gelu_code_backward(context, false, kept->keep.bits, x,
        clprune__codes_mat(kept, range), x, CLPRUNE_NO_MAT, event));
done:
    return status;
}

const clprune__form clprune__form_gelu_code = {
    .name = "gelu code", .settle = settle, .sizes = sizes, .store = store, .restore = restore};
