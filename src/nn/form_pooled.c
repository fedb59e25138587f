/* POOLED: the means of cells of neighbouring rows, fp32. */
#include "core/checked.h"
#include "nn/form.h"
#include "ops/pool_private.h"
#include "runtime/check.h"

static clprune_status settle(clprune_context *context, clprune_keep *keep)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(keep->cell > 0, CLPRUNE_INVALID_ARGUMENT, "cell is 0, expected 1 or more");
    REQUIRE((keep->grid_height == 0) == (keep->grid_width == 0), CLPRUNE_INVALID_ARGUMENT,
        "a grid of %u x %u has one side of 0, expected two sides of at least 1, or 0 x 0 for none",
        keep->grid_height, keep->grid_width);
done:
    return status;
}

/* Without a grid, the rows lie in one line. */
static clprune__pool_grid grid_of(const clprune__kept *kept)
{
    const clprune_keep *keep = &kept->keep;
    if (keep->grid_height == 0)
        return (clprune__pool_grid){1, kept->rows, keep->cell};
    return (clprune__pool_grid){keep->grid_height, keep->grid_width, keep->cell};
}

static clprune_status sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *found)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__pool_grid grid = grid_of(kept);
    size_t rows;
    REQUIRE(clprune__mul(grid.height, grid.width, &rows) && rows == kept->rows,
        CLPRUNE_INVALID_SIZE, "samples have %zu rows, expected those of a grid of %zu x %zu",
        kept->rows, grid.height, grid.width);
    REQUIRE(clprune__mul3(kept->batch, clprune__pool_cells(&grid), kept->cols, &found->bytes) &&
                clprune__mul(found->bytes, sizeof(float), &found->bytes),
        CLPRUNE_SIZE_OVERFLOW, "%zu samples of %zu x %zu overflow size_t", kept->batch, kept->rows,
        kept->cols);
    found->values_bytes = found->bytes;
done:
    return status;
}

static clprune_mat cells(
    const clprune__kept *kept, const clprune__pool_grid *grid, clprune__range range)
{
    const size_t count = clprune__pool_cells(grid);
    clprune_mat all = clprune_mat_of(kept->buffer, kept->batch * count, kept->cols);
    all.offset = kept->offset / sizeof(float);
    return clprune_mat_rows(all, range.first * count, range.count * count);
}

static clprune_status store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event)
{
    const clprune__pool_grid grid = grid_of(kept);
    (void)scores;
    return clprune__pool(context, &grid, range.count, x, cells(kept, &grid, range), event);
}

static clprune_status restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    const clprune__pool_grid grid = grid_of(kept);
    return clprune__pool_spread(context, &grid, range.count, cells(kept, &grid, range), x, event);
}

static clprune_status product_tn(clprune_context *context, const clprune__kept *kept,
    clprune__range range, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const clprune__pool_grid grid = grid_of(kept);
    return clprune__pool_tn(
        context, &grid, range.count, beta, dy, cells(kept, &grid, range), dw, event);
}

static clprune_status product_nt(clprune_context *context, const clprune__kept *kept,
    clprune__range range, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const clprune__pool_grid grid = grid_of(kept);
    return clprune__pool_nt(
        context, &grid, range.count, beta, dy, cells(kept, &grid, range), dw, event);
}

static clprune_status product_conv(clprune_context *context, const clprune__kept *kept,
    clprune__range range, const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw,
    cl_event *event)
{
    const clprune__pool_grid grid = grid_of(kept);
    if (grid.height != conv->image.height || grid.width != conv->image.width ||
        !clprune__conv_pools(context, conv, grid.cell))
        return clprune__restored_product_conv(context, kept, range, conv, beta, dy, dw, event);
    return clprune__conv_dw_pooled(
        context, conv, grid.cell, beta, cells(kept, &grid, range), dy, dw, event);
}

const clprune__form clprune__form_pooled = {.name = "pooled",
    .settle = settle,
    .sizes = sizes,
    .store = store,
    .restore = restore,
    .product_tn = product_tn,
    .product_nt = product_nt,
    .product_conv = product_conv};
