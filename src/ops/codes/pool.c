#include "ops/codes/pool_private.h"

#include "core/checked.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def pool_rows_kernel = {"codes/pool.cl", "pool_rows"};
static const clprune__kernel_def pool_spread_kernel = {"codes/pool.cl", "pool_spread"};
static const clprune__kernel_def pool_columns_kernel = {"codes/pool.cl", "pool_columns"};

/* Scratch for the sums of dy of as many samples as fit, at least one. */
#define SUMS_BYTES ((size_t)8 << 20)

size_t clprune__pool_cells(const clprune__pool_grid *grid)
{
    return clprune__ceil_div(grid->height, grid->cell) * clprune__ceil_div(grid->width, grid->cell);
}

/* The rows of a batch before and after pooling. */
static clprune_status count_rows(clprune_context *context, const clprune__pool_grid *grid,
    size_t batch, size_t *rows, size_t *cell_rows)
{
    REQUIRE(grid->cell > 0, CLPRUNE_INVALID_ARGUMENT, "cell is 0, expected at least 1");
    REQUIRE(clprune__mul3(batch, grid->height, grid->width, rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu x %zu rows overflow size_t", batch, grid->height, grid->width);
    *cell_rows = batch * clprune__pool_cells(grid);
    return CLPRUNE_SUCCESS;
}

/* Begins a launch of pool.cl that writes a rows x cols matrix, and sets the arguments that all
 * entries share. `name` = `value` is one more define. */
static clprune_status begin(clprune_context *context, const clprune__kernel_def *def,
    const clprune__pool_grid *grid, const char *name, bool value, size_t rows, size_t cols,
    clprune__rowwise *plan, clprune__launch *launch)
{
    clprune__defines defines = {0};
    *plan = clprune__rowwise_plan(context, rows, cols);
    clprune__define(&defines, "LOCAL", plan->local);
    clprune__define(&defines, "VW", clprune__vector_width(context));
    clprune__define(&defines, name, value);
    TRY(clprune__launch_begin(context, def, &defines, launch));
    launch->least_group = 1;
    ARG_ULONGS(launch, plan->group_rows, grid->height, grid->width, grid->cell,
        clprune__pool_cells(grid), rows);
    return CLPRUNE_SUCCESS;
}

/* to = the sums of x over cells, or their means. */
static clprune_status pool_rows(clprune_context *context, const clprune__pool_grid *grid, bool mean,
    clprune_mat x, clprune_mat to, cl_event *event)
{
    clprune__rowwise plan;
    clprune__launch launch;
    TRY(begin(context, &pool_rows_kernel, grid, "MEAN", mean, to.rows, to.cols, &plan, &launch));
    clprune__arg_ulong(&launch, to.cols);
    ARG_MATS(&launch, x, to);
    return clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event);
}

clprune_status clprune__pool(clprune_context *context, const clprune__pool_grid *grid, size_t batch,
    clprune_mat x, clprune_mat p, cl_event *event)
{
    size_t rows = 0, cell_rows = 0;
    TRY(count_rows(context, grid, batch, &rows, &cell_rows));
    TRY(clprune__check_mat(context, "x", x, rows, x.cols));
    TRY(clprune__check_mat(context, "p", p, cell_rows, x.cols));
    TRY(clprune__check_apart(context, "p", p, "x", x));
    return pool_rows(context, grid, true, x, p, event);
}

/* y = the cell of each row or, if x is not NULL, x + scale * the cell. */
static clprune_status spread(clprune_context *context, const clprune__pool_grid *grid, float scale,
    clprune_mat p, const clprune_mat *x, clprune_mat y, cl_event *event)
{
    clprune__rowwise plan;
    clprune__launch launch;
    TRY(begin(
        context, &pool_spread_kernel, grid, "SHIFT", x != NULL, y.rows, y.cols, &plan, &launch));
    clprune__arg_ulong(&launch, y.cols);
    if (x != NULL) {
        clprune__arg_float(&launch, scale);
        clprune__arg_mat(&launch, *x);
    }
    ARG_MATS(&launch, p, y);
    return clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event);
}

clprune_status clprune__pool_spread(clprune_context *context, const clprune__pool_grid *grid,
    size_t batch, clprune_mat p, clprune_mat y, cl_event *event)
{
    size_t rows = 0, cell_rows = 0;
    TRY(count_rows(context, grid, batch, &rows, &cell_rows));
    TRY(clprune__check_mat(context, "p", p, cell_rows, p.cols));
    TRY(clprune__check_mat(context, "y", y, rows, p.cols));
    TRY(clprune__check_apart(context, "y", y, "p", p));
    return spread(context, grid, 1.0f, p, NULL, y, event);
}

clprune_status clprune__pool_shift(clprune_context *context, const clprune__pool_grid *grid,
    size_t batch, float scale, clprune_mat p, clprune_mat x, clprune_mat y, cl_event *event)
{
    size_t rows = 0, cell_rows = 0;
    enum { P, X, Y, ALL };
    TRY(count_rows(context, grid, batch, &rows, &cell_rows));
    const clprune__operand operands[ALL] = {{"p", p, cell_rows, x.cols}, {"x", x, rows, x.cols},
        {"y", y, rows, x.cols, .in_place = 1u << X}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    return spread(context, grid, scale, p, &x, y, event);
}

clprune_status clprune__pool_tn(clprune_context *context, const clprune__pool_grid *grid,
    size_t batch, float beta, clprune_mat dy, clprune_mat p, clprune_mat dw, cl_event *event)
{
    size_t rows = 0, cell_rows = 0;
    SCRATCH_SCOPE(context);
    TRY(count_rows(context, grid, batch, &rows, &cell_rows));
    TRY(clprune__check_mat(context, "dy", dy, rows, dy.cols));
    TRY(clprune__check_mat(context, "p", p, cell_rows, p.cols));
    TRY(clprune__check_mat(context, "dw", dw, dy.cols, p.cols));
    TRY(clprune__check_apart(context, "dw", dw, "dy", dy));
    if (cell_rows == 0 || dw.rows == 0 || dw.cols == 0) { /* empty sums */
        TRY(clprune__scale(context, beta, dw, event));
        return CLPRUNE_SUCCESS;
    }
    /* Samples in equal runs, whose sums stay in a cache until they are multiplied. */
    const size_t cells = clprune__pool_cells(grid), sample = grid->height * grid->width;
    const size_t fit = clprune__max(1, SUMS_BYTES / sizeof(float) / dy.cols / cells);
    const size_t run = clprune__ceil_div(batch, clprune__ceil_div(batch, fit));
    clprune_mat sums;
    TRY(clprune__scratch_mat(context, run * cells, dy.cols, &sums));
    for (size_t n = 0; n < batch; n += run) {
        const size_t count = clprune__min(run, batch - n);
        const clprune_mat part = clprune_mat_rows(sums, 0, count * cells);
        TRY(pool_rows(
            context, grid, false, clprune_mat_rows(dy, n * sample, count * sample), part, NULL));
        TRY(clprune__gemm_single(context, true, false, 1.0f, n == 0 ? beta : 1.0f, part,
            clprune_mat_rows(p, n * cells, count * cells), dw, n + count == batch ? event : NULL));
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__pool_nt(clprune_context *context, const clprune__pool_grid *grid,
    size_t batch, float beta, clprune_mat dy, clprune_mat p, clprune_mat dw, cl_event *event)
{
    size_t rows = 0, cell_rows = 0, sample = 0;
    clprune__rowwise plan;
    clprune__launch launch;
    clprune_mat sums;
    SCRATCH_SCOPE(context);
    TRY(count_rows(context, grid, 1, &sample, &cell_rows));
    TRY(count_rows(context, grid, batch, &rows, &cell_rows));
    TRY(clprune__check_mat(context, "p", p, cell_rows, p.cols));
    TRY(clprune__check_mat(context, "dw", dw, dw.rows, sample));
    TRY(clprune__check_apart(context, "dw", dw, "dy", dy));
    TRY(clprune__check_apart(context, "dw", dw, "p", p));
    TRY(clprune__scratch_mat(context, dw.rows, clprune__pool_cells(grid), &sums));
    TRY(clprune__gemm_sum_nt(context, batch, 0.0f, dy, p, NULL, sums, NULL));
    TRY(begin(context, &pool_columns_kernel, grid, "READ_DW", beta != 0.0f, dw.rows, dw.cols, &plan,
        &launch));
    clprune__arg_float(&launch, beta);
    ARG_MATS(&launch, sums, dw);
    return clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event);
}
