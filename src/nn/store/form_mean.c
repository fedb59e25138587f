/* MEAN: the mean of each sample's rows. Its products need no copy of the rows:
 *
 *     x_n = 1 * mean_n, so  dy_n^T * x_n = (sum of the rows of dy_n)^T * mean_n */
#include "core/checked.h"
#include "nn/images/token_mean_private.h"
#include "nn/store/form.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

static clprune_mat means(const clprune__kept *kept, clprune__range range)
{
    clprune_mat all = clprune_mat_of(kept->buffer, kept->batch, kept->cols);
    all.offset = kept->offset / sizeof(float);
    return clprune_mat_rows(all, range.first, range.count);
}

static clprune_status sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *found)
{
    REQUIRE(clprune__mul3(kept->batch, kept->cols, sizeof(float), &found->values_bytes),
        CLPRUNE_SIZE_OVERFLOW, "%zu means of %zu overflow size_t", kept->batch, kept->cols);
    found->bytes = found->values_bytes;
    return CLPRUNE_SUCCESS;
}

static clprune_status store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event)
{
    (void)scores;
    const float scale = kept->rows > 0 ? 1 / (float)kept->rows : 0; /* no rows add nothing to dw */
    return clprune__token_sum(
        context, range.count, kept->rows, scale, x, means(kept, range), event);
}

static clprune_status restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    return clprune__token_spread(
        context, range.count, kept->rows, 1.0f, means(kept, range), x, event);
}

static clprune_status product(clprune_context *context, const clprune__kept *kept,
    clprune__range range, bool nt, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    if (nt)
        return clprune__restored_product(context, kept, range, nt, beta, dy, dw, event);
    SCRATCH_SCOPE(context);
    clprune_mat sums;
    TRY(clprune__scratch_mat(context, range.count, dy.cols, &sums));
    TRY(clprune__token_sum(context, range.count, kept->rows, 1.0f, dy, sums, NULL));
    return clprune__gemm_single(
        context, true, false, 1.0f, beta, sums, means(kept, range), dw, event);
}

const clprune__form clprune__form_mean = {
    .name = "mean", .sizes = sizes, .store = store, .restore = restore, .product = product};
