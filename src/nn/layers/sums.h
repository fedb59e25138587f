/* Sums over rows or over features, in a fixed order: the bias gradients of the linear layers, and
 * the second stage of the kernels that leave partial sums (clprune__sums_plan). */
#ifndef CLPRUNE_NN_SUMS_H
#define CLPRUNE_NN_SUMS_H

#include "clprune/matrix.h"

/* sum[0][c] = sum_r x[r][c] + beta * sum[0][c]; beta 0 does not read sum. x: M x d, also of bf16;
 * sum: 1 x d, apart from x. No rows give zeros. */
clprune_status clprune__column_sum(
    clprune_context *context, float beta, clprune_mat x, clprune_mat sum, cl_event *event);

/* db[0][q] = sum over n and c of dy[n * tokens + q][c] + beta * db[0][q]. dy: (batch * tokens) x d;
 * db: 1 x tokens, apart from dy. */
clprune_status clprune__token_bias_grad(clprune_context *context, float beta, size_t batch,
    size_t tokens, clprune_mat dy, clprune_mat db, cl_event *event);

/* Takes scratch for the row sums of x, (batch * tokens) x d, which a kernel writes one after
 * another. As *sums, batch x tokens, its column sums are those of each token. If x has no columns,
 * *sums has no rows: nothing is launched. */
clprune_status clprune__row_sums(
    clprune_context *context, clprune_mat x, size_t tokens, clprune_mat *sums);

/* The second stage of `count` sums: sums[i][0][c] = sum of partial[g * count + i][c] over g <
 * groups + beta * sums[i][0][c], for the columns of sums[i]. `partial` is scratch, of which only
 * buffer, offset and ld are used. Neither partial nor sums are checked. No groups give zeros. */
clprune_status clprune__column_sums_final(clprune_context *context, float beta, size_t groups,
    clprune_mat partial, size_t count, const clprune_mat *sums, cl_event *event);

#endif
