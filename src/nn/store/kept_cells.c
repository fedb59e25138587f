/* The cells of a store: their grid, their bytes and their means. */
#include "core/checked.h"
#include "nn/store/form.h"
#include "runtime/context/fail.h"

clprune_status clprune__check_cells(clprune_context *context, const clprune_keep *keep)
{
    REQUIRE(keep->cell > 0, CLPRUNE_INVALID_ARGUMENT, "cell is 0, expected 1 or more");
    REQUIRE((keep->grid_height == 0) == (keep->grid_width == 0), CLPRUNE_INVALID_ARGUMENT,
        "a grid of %u x %u has one side of 0, expected two sides of at least 1, or 0 x 0 for none",
        keep->grid_height, keep->grid_width);
    return CLPRUNE_SUCCESS;
}

/* Without a grid, the rows lie in one line. The cell is at most as long as the grid, so that
 * kernels can add it to a coordinate. */
clprune__pool_grid clprune__kept_grid(const clprune__kept *kept)
{
    const clprune_keep *keep = &kept->keep;
    const bool in_line = keep->cell == 0 || keep->grid_height == 0;
    clprune__pool_grid grid = {1, kept->rows, 0};
    if (!in_line)
        grid = (clprune__pool_grid){keep->grid_height, keep->grid_width, 0};
    const size_t longest = clprune__max(1, clprune__max(grid.height, grid.width));
    grid.cell = keep->cell == 0 ? longest : clprune__min(keep->cell, longest);
    return grid;
}

clprune_status clprune__kept_cells_bytes(
    clprune_context *context, const clprune__kept *kept, size_t *bytes)
{
    const clprune__pool_grid grid = clprune__kept_grid(kept);
    size_t rows;
    REQUIRE(clprune__mul(grid.height, grid.width, &rows) && rows == kept->rows,
        CLPRUNE_INVALID_SIZE, "samples have %zu rows, expected those of a grid of %zu x %zu",
        kept->rows, grid.height, grid.width);
    REQUIRE(clprune__mul3(kept->batch, clprune__pool_cells(&grid), kept->cols, bytes) &&
                clprune__mul(*bytes, sizeof(float), bytes),
        CLPRUNE_SIZE_OVERFLOW, "%zu samples of %zu x %zu overflow size_t", kept->batch, kept->rows,
        kept->cols);
    return CLPRUNE_SUCCESS;
}

clprune_mat clprune__kept_cells(const clprune__kept *kept, clprune__range range)
{
    const clprune__pool_grid grid = clprune__kept_grid(kept);
    const size_t count = clprune__pool_cells(&grid);
    clprune_mat all = clprune_mat_of(kept->buffer, kept->batch * count, kept->cols);
    all.offset = kept->offset / sizeof(float);
    return clprune_mat_rows(all, range.first * count, range.count * count);
}

bool clprune__kept_conv_pools(
    const clprune_context *context, const clprune__kept *kept, const clprune__conv *conv)
{
    const clprune__pool_grid grid = clprune__kept_grid(kept);
    return grid.height == conv->image.height && grid.width == conv->image.width &&
           clprune__conv_pools(context, conv, grid.cell);
}
