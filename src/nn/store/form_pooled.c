/* POOLED: the means of cells of neighbouring rows, fp32. */
#include "nn/store/form.h"

static clprune_status settle(clprune_context *context, clprune_keep *keep)
{
    return clprune__check_cells(context, keep);
}

static clprune_status sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *found)
{
    clprune_status status = clprune__kept_cells_bytes(context, kept, &found->bytes);
    found->values_bytes = found->bytes;
    return status;
}

static clprune_status store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event)
{
    const clprune__pool_grid grid = clprune__kept_grid(kept);
    (void)scores;
    return clprune__pool(context, &grid, range.count, x, clprune__kept_cells(kept, range), event);
}

static clprune_status restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    const clprune__pool_grid grid = clprune__kept_grid(kept);
    return clprune__pool_spread(
        context, &grid, range.count, clprune__kept_cells(kept, range), x, event);
}

static clprune_status product(clprune_context *context, const clprune__kept *kept,
    clprune__range range, bool nt, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const clprune__pool_grid grid = clprune__kept_grid(kept);
    return (nt ? clprune__pool_nt : clprune__pool_tn)(
        context, &grid, range.count, beta, dy, clprune__kept_cells(kept, range), dw, event);
}

static clprune_status product_conv(clprune_context *context, const clprune__kept *kept,
    clprune__range range, const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw,
    cl_event *event)
{
    if (!clprune__kept_conv_pools(context, kept, conv))
        return clprune__restored_product_conv(context, kept, range, conv, beta, dy, dw, event);
    return clprune__conv_dw_pooled(context, conv, clprune__kept_grid(kept).cell, beta,
        clprune__kept_cells(kept, range), dy, dw, event);
}

const clprune__form clprune__form_pooled = {.name = "pooled",
    .settle = settle,
    .sizes = sizes,
    .store = store,
    .restore = restore,
    .product = product,
    .product_conv = product_conv};
