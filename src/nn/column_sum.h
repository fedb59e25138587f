/* Sums over rows or over features, in a fixed order: the bias gradients of the linear layers, and
 * the second stage of the operations that leave a partial sum per group of rows. */
#ifndef CLPRUNE_NN_COLUMN_SUM_H
#define CLPRUNE_NN_COLUMN_SUM_H

#include <stdbool.h>

#include "clprune/matrix.h"
#include "runtime/rowwise.h"

/* sum[0][c] = sum_r x[r][c], with `accumulate` added to. x: M x d; sum: 1 x d, apart from x. No
 * rows give zeros. */
clprune_status clprune__column_sum(
    clprune_context *context, bool accumulate, clprune_mat x, clprune_mat sum, cl_event *event);

/* db[0][q] = sum over n and c of dy[n * tokens + q][c], with `accumulate` added to. dy: (batch *
 * tokens) x d; db: 1 x tokens, apart from dy. */
clprune_status clprune__token_bias_grad(clprune_context *context, size_t batch, size_t tokens,
    bool accumulate, clprune_mat dy, clprune_mat db, cl_event *event);

/* Scratch for the sums of the rows of x, (batch * tokens) x d, which a kernel leaves one after
 * another: as *sums, batch x tokens, their column sums are per token. Without columns in x it has
 * no rows, as then nothing is launched. */
clprune_status clprune__row_sums(
    clprune_context *context, clprune_mat x, size_t tokens, clprune_mat *sums);

/* The row-wise plan of a first stage: few enough groups for the second to be quick. */
clprune__rowwise clprune__reduction_plan(const clprune_context *context, size_t rows, size_t cols);

/* The same with strips of so many rows on CPUs. 1 is best where an element takes long, as GELU
 * does: the partial sums then wait in a near cache at little cost, and rows are read as they lie.
 */
clprune__rowwise clprune__strip_plan(
    const clprune_context *context, size_t rows, size_t cols, unsigned cpu_strip);

/* The second stage of `count` sums: sums[i][0][c] = sum of partial[g * count + i][c] over the g
 * below `groups`, for the columns of sums[i]; with `accumulate` added to it. `partial` is scratch,
 * of which only buffer, offset and ld are used; not checked, as are the sums. No groups give zeros.
 */
clprune_status clprune__column_sums_final(clprune_context *context, bool accumulate, size_t groups,
    clprune_mat partial, size_t count, const clprune_mat *sums, cl_event *event);

#endif
