/* Token pooling (arXiv 2409.11902): the mean of a cell of neighbouring rows stands for each row of
 * the cell. A weight gradient needs no upsampled copy: it sums dy over cells instead. */
#ifndef CLPRUNE_OPS_POOL_PRIVATE_H
#define CLPRUNE_OPS_POOL_PRIVATE_H

#include "clprune/matrix.h"

/* The rows of a sample as a grid, row y * width + x at place (y, x), in cells of cell x cell
 * places. Cells at the lower and right edges may be smaller. With height 1 cells are runs of `cell`
 * rows. */
typedef struct clprune__pool_grid {
    size_t height, width;
    size_t cell; /* >= 1 */
} clprune__pool_grid;

/* Cells of a sample, numbered along the grid's rows. */
size_t clprune__pool_cells(const clprune__pool_grid *grid);

/* p = the means of the cells of x. x: (batch * height * width) x cols; p: (batch * cells) x cols.
 */
clprune_status clprune__pool(clprune_context *context, const clprune__pool_grid *grid, size_t batch,
    clprune_mat x, clprune_mat p, cl_event *event);

/* y = the cell of each row. p and y as p and x above. */
clprune_status clprune__pool_spread(clprune_context *context, const clprune__pool_grid *grid,
    size_t batch, clprune_mat p, clprune_mat y, cl_event *event);

/* y = x + scale * the cell of each row; y may be x. */
clprune_status clprune__pool_shift(clprune_context *context, const clprune__pool_grid *grid,
    size_t batch, float scale, clprune_mat p, clprune_mat x, clprune_mat y, cl_event *event);

/* dw = dy^T * (p spread) + beta * dw, as the sum over cells of (dy summed over the cell)^T * p. dy:
 * (batch * height * width) x o; dw: o x cols. */
clprune_status clprune__pool_tn(clprune_context *context, const clprune__pool_grid *grid,
    size_t batch, float beta, clprune_mat dy, clprune_mat p, clprune_mat dw, cl_event *event);

/* dw = sum over the samples of dy_n * (p_n spread)^T + beta * dw: one column for each cell, which
 * all its rows share. dy: (batch * o) x cols; dw: o x (height * width). */
clprune_status clprune__pool_nt(clprune_context *context, const clprune__pool_grid *grid,
    size_t batch, float beta, clprune_mat dy, clprune_mat p, clprune_mat dw, cl_event *event);

#endif
