/* Plans and launches of row-wise kernels, whose skeleton is rowwise.clh: element-wise ones, and
 * those that add up the columns or the rows of a matrix.
 *
 *     const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
 *     const clprune_mat mats[] = {x, alpha, beta, y};
 *     TRY(clprune__rowwise_run(context, &affine_forward_kernel, &plan, 4, mats, event));
 *
 * A work-group takes group_rows consecutive rows, its LOCAL work-items take vectors of VW columns
 * in turn. CPUs run one work-item a group with 16-wide vectors, GPUs many with narrow ones. */
#ifndef CLPRUNE_RUNTIME_ROWWISE_H
#define CLPRUNE_RUNTIME_ROWWISE_H

#include "runtime/launch.h"

typedef struct clprune__rowwise {
    size_t rows, cols;         /* of the matrix */
    size_t global, local;      /* of the launch */
    size_t groups, group_rows; /* groups = ceil(rows / group_rows) */
    size_t lanes;              /* of clprune__lanes_plan, else 0 */
    size_t team;               /* of clprune__team_plan, else 0 */
    clprune__defines defines;  /* LOCAL, VW, and what else the plan has */
} clprune__rowwise;

/* Each element by itself. */
clprune__rowwise clprune__rowwise_plan(const clprune_context *context, size_t rows, size_t cols);

/* Sums of columns: each group leaves `sums` rows of a partial result, of (sums * plan.groups) x
 * cols, for clprune__column_sums_final. There are few enough groups for that to be quick. Adds SUMS
 * and STRIP: a group goes through its rows in strips of cpu_strip or gpu_strip rows, 0 for all at
 * once. CLPRUNE__STRIP is best on CPUs where an element takes little time, 1 where it takes long:
 * the partial sums then wait in a near cache at little cost, and rows are read in the order of
 * memory. Without sums, a strip is one row. */
enum { CLPRUNE__STRIP = 8 };
clprune__rowwise clprune__sums_plan(const clprune_context *context, size_t rows, size_t cols,
    size_t sums, size_t cpu_strip, size_t gpu_strip);

/* The same with vectors of `width` floats: 1, 4, 8 or 16. */
clprune__rowwise clprune__sums_plan_of(const clprune_context *context, size_t rows, size_t cols,
    size_t sums, size_t cpu_strip, size_t gpu_strip, size_t width);

/* As clprune__sums_plan_of, for matrices of few columns too: on GPUs LANES work-items share a row,
 * and the group's other work-items take further rows. On CPUs a group goes through its rows in
 * strips of CLPRUNE__STRIP, with or without sums. For kernels that begin with LANE_SIZES. */
clprune__rowwise clprune__lanes_plan(
    const clprune_context *context, size_t rows, size_t cols, size_t sums, size_t width);

/* Lanes for rows of `cols` columns in vectors of `width`, and the work-items of a group. */
size_t clprune__lanes(const clprune_context *context, size_t cols, size_t width, size_t *local);

/* Sums of rows: TEAM work-items, on CPUs one, share a row; a group's teams take rows in turn.
 * Adds TEAM. */
clprune__rowwise clprune__team_plan(const clprune_context *context, size_t rows, size_t cols);

/* Floats of a vector: VW of the row-wise kernels. */
size_t clprune__vector_width(const clprune_context *context);

/* clprune__launch_begin with the plan's defines, and the arguments of ROWWISE_SIZES or LANE_SIZES.
 */
clprune_status clprune__rowwise_begin(clprune_context *context, const clprune__kernel_def *def,
    const clprune__rowwise *plan, clprune__launch *launch);

/* clprune__launch_enqueue with the plan's sizes. */
clprune_status clprune__rowwise_end(
    clprune__launch *launch, const clprune__rowwise *plan, cl_event *event);

/* Both, for a kernel whose other arguments are `count` matrices. */
clprune_status clprune__rowwise_run(clprune_context *context, const clprune__kernel_def *def,
    const clprune__rowwise *plan, size_t count, const clprune_mat *mats, cl_event *event);

#endif
