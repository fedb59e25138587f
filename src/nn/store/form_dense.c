/* DENSE: x as it is. */
#include "nn/store/form.h"
#include "runtime/context/check.h"
#include "runtime/memory/matrix_private.h"

static clprune_mat dense_mat(const clprune__kept *kept, clprune__range range)
{
    clprune_mat all = clprune_mat_of(kept->buffer, kept->batch * kept->rows, kept->cols);
    all.offset = kept->offset / sizeof(float);
    return clprune_mat_rows(all, range.first * kept->rows, range.count * kept->rows);
}

static clprune_status sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *found)
{
    (void)context;
    (void)kept;
    found->bytes = found->values_bytes = found->dense_bytes;
    return CLPRUNE_SUCCESS;
}

static clprune_status copy_unless_same(
    clprune_context *context, clprune_mat from, clprune_mat to, cl_event *event)
{
    if (clprune__same_mat(from, to))
        return clprune__empty_event(context, event);
    return clprune__mat_copy(context, from, to, event);
}

static clprune_status store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event)
{
    (void)scores;
    return copy_unless_same(context, x, dense_mat(kept, range), event);
}

static clprune_status restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    return copy_unless_same(context, dense_mat(kept, range), x, event);
}

static clprune_status product(clprune_context *context, const clprune__kept *kept,
    clprune__range range, bool nt, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const clprune_mat x = dense_mat(kept, range);
    if (nt)
        return clprune__gemm_sum_nt(context, range.count, beta, dy, x, NULL, dw, event);
    return clprune__gemm_single(context, true, false, 1.0f, beta, dy, x, dw, event);
}

static clprune_status product_conv(clprune_context *context, const clprune__kept *kept,
    clprune__range range, const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw,
    cl_event *event)
{
    return clprune__conv_dw(context, conv, beta, dense_mat(kept, range), dy, dw, event);
}

const clprune__form clprune__form_dense = {.name = "dense",
    .sizes = sizes,
    .mat = dense_mat,
    .store = store,
    .restore = restore,
    .product = product,
    .product_reads_bf16 = true,
    .product_conv = product_conv};
