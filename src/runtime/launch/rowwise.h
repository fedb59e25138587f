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

#include "runtime/launch/launch.h"

typedef struct clprune__rowwise {
    size_t rows, cols;         /* of the matrix */
    size_t global, local;      /* of the launch */
    size_t groups, group_rows; /* groups = ceil(rows / group_rows) */
    size_t lanes;              /* of clprune__lanes_plan, else 0 */
    size_t team;               /* of plans with teams, else 0 */
    clprune__defines defines;  /* LOCAL, VW and those that the plan adds */
} clprune__rowwise;

/* Each element by itself. */
clprune__rowwise clprune__rowwise_plan(const clprune_context *context, size_t rows, size_t cols);

/* Sums of columns. Each group writes `sums` rows of partial sums, (sums * plan.groups) x cols in
 * all, for clprune__column_sums_final; there are at most 512 groups. Adds SUMS and STRIP: a group
 * goes through its rows in strips of cpu_strip or gpu_strip rows, 0 for all at once. On CPUs take
 * CLPRUNE__STRIP where an element takes little time, and 1 where it takes long: the partial sums
 * then stay in a near cache, and rows are read in the order of memory. With `sums` 0 a strip is one
 * row. */
enum { CLPRUNE__STRIP = 8 };
clprune__rowwise clprune__sums_plan(const clprune_context *context, size_t rows, size_t cols,
    size_t sums, size_t cpu_strip, size_t gpu_strip);

/* The same with vectors of `width` floats: 1, 4, 8 or 16. */
clprune__rowwise clprune__sums_plan_of(const clprune_context *context, size_t rows, size_t cols,
    size_t sums, size_t cpu_strip, size_t gpu_strip, size_t width);

/* As clprune__sums_plan_of, but suits few columns too: on GPUs plan.lanes work-items share a row,
 * and the group's other work-items take other rows. On CPUs a group goes through its rows in strips
 * of CLPRUNE__STRIP, with or without sums. For kernels whose parameters begin with LANE_SIZES. */
clprune__rowwise clprune__lanes_plan(
    const clprune_context *context, size_t rows, size_t cols, size_t sums, size_t width);

/* The lanes that share a row of `cols` columns in vectors of `width`; *local = the work-items of a
 * group, a multiple of them. */
size_t clprune__lanes(const clprune_context *context, size_t cols, size_t width, size_t *local);

/* Sums of rows: TEAM work-items, on CPUs one, share a row; a group's teams take rows in turn.
 * Adds TEAM. */
clprune__rowwise clprune__team_plan(const clprune_context *context, size_t rows, size_t cols);

/* Sums of columns that need sums of rows first: strips of CLPRUNE__STRIP rows on every device, and
 * teams for the rows of a strip. `sums` may be 0. Adds SUMS, STRIP and TEAM. */
clprune__rowwise clprune__strips_plan(
    const clprune_context *context, size_t rows, size_t cols, size_t sums);

/* Floats of a vector: VW of the row-wise kernels. */
size_t clprune__vector_width(const clprune_context *context);
/* Work-items of a group: 1 on CPUs, else `wanted`, or as many as the device takes. */
size_t clprune__group_size(const clprune_context *context, size_t wanted);

/* clprune__launch_begin with the plan's defines, and the arguments of ROWWISE_SIZES or LANE_SIZES.
 */
clprune_status clprune__rowwise_begin(clprune_context *context, const clprune__kernel_def *def,
    const clprune__rowwise *plan, clprune__launch *launch);

/* clprune__launch_enqueue with the plan's sizes. */
clprune_status clprune__rowwise_end(
    clprune__launch *launch, const clprune__rowwise *plan, cl_event *event);

/* clprune__launch_enqueue for kernels whose groups take one row of the plan each, and LOCAL vectors
 * of its columns (PART_ROW in rowwise.clh). All groups lie along one dimension: some GPUs allow no
 * more than 65535 along the others. */
clprune_status clprune__rowwise_end_parts(
    clprune__launch *launch, const clprune__rowwise *plan, cl_event *event);

/* Both, for a kernel whose other arguments are `count` matrices. */
clprune_status clprune__rowwise_run(clprune_context *context, const clprune__kernel_def *def,
    const clprune__rowwise *plan, size_t count, const clprune_mat *mats, cl_event *event);

#endif
