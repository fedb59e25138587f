#include "clprune/token_mix.h"

#include "core/checked.h"
#include "nn/layers/sums.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def token_mix_input_kernel = {
    "layers/token_mix.cl", "token_mix_input"};
static const clprune__kernel_def token_mix_backward_kernel = {
    "layers/token_mix.cl", "token_mix_backward"};

/* Checks sizes, and that each output lies apart from the inputs and the outputs before it. */
static clprune_status check(clprune_context *context, size_t batch, clprune_mat x,
    const clprune_token_mix *p, clprune_mat dx, clprune_mat work, const clprune_token_mix *dp)
{
    enum { INPUTS = 6, ALL = 13 };
    size_t rows;
    const size_t tokens = p->w.rows, cols = x.cols;
    REQUIRE(clprune__mul(batch, tokens, &rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu tokens overflow size_t", batch, tokens);
    const clprune__operand part[ALL] = {{"x", x, rows, cols}, {"alpha", p->alpha, 1, cols},
        {"beta", p->beta, 1, cols}, {"w", p->w, tokens, tokens}, {"b", p->b, 1, tokens},
        {"ls", p->ls, 1, cols}, {"dx", dx, rows, cols}, {"work", work, rows, cols},
        {"dalpha", dp->alpha, 1, cols}, {"dbeta", dp->beta, 1, cols}, {"dw", dp->w, tokens, tokens},
        {"db", dp->b, 1, tokens}, {"dls", dp->ls, 1, cols}};
    return clprune__check_operands(context, part, INPUTS, ALL);
}

/* m = ls * (alpha * x + beta) */
static clprune_status scaled_input(
    clprune_context *context, clprune_mat x, const clprune_token_mix *params, clprune_mat m)
{
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    const clprune_mat mats[] = {x, params->alpha, params->beta, params->ls, m};
    return clprune__rowwise_run(context, &token_mix_input_kernel, &plan, 5, mats, NULL);
}

/* u_n = w^T * dy_n */
static clprune_status back_through_tokens(
    clprune_context *context, size_t batch, clprune_mat dy, clprune_mat w, clprune_mat u)
{
    const size_t tokens = w.rows;
    if (batch == 0)
        return CLPRUNE_SUCCESS;
    return clprune__gemm_batched(context, batch, true, false, 1.0f, 0.0f, w, 0,
        clprune_mat_rows(dy, 0, tokens), tokens * dy.ld, clprune_mat_rows(u, 0, tokens),
        tokens * u.ld, NULL);
}

/* dx += alpha * ls * u, and the gradients of the vectors; b's from dy, which dx holds before. One
 * pass over x, u and dx. */
static clprune_status finish(clprune_context *context, float beta, clprune_mat x,
    const clprune_token_mix *p, clprune_mat u, clprune_mat dx, const clprune_token_mix *dp,
    cl_event *event)
{
    SCRATCH_SCOPE(context);
    const clprune__rowwise plan =
        clprune__sums_plan(context, x.rows, x.cols, 3, CLPRUNE__STRIP, CLPRUNE__STRIP);
    clprune_mat partial, row_sums;
    TRY(clprune__scratch_mat(context, 3 * plan.groups, x.cols, &partial));
    TRY(clprune__row_sums(context, x, p->w.rows, &row_sums));
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &token_mix_backward_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, p->w.rows);
    ARG_MATS(&launch, x, p->alpha, p->beta, p->b, p->ls, u, dx, partial, row_sums);
    TRY(clprune__rowwise_end(&launch, &plan, NULL));
    TRY(clprune__column_sum(context, beta, row_sums, dp->b, NULL));
    const clprune_mat sums[3] = {dp->ls, dp->alpha, dp->beta};
    return clprune__column_sums_final(context, beta, plan.groups, partial, 3, sums, event);
}

/* Forward: y_n = x_n + ls * (w * n_n + b^T * 1), n = alpha * x + beta. `work` holds ls * n, then u.
 */
clprune_status clprune_token_mix_backward(clprune_context *context, size_t batch, float beta,
    clprune_mat x, const clprune_token_mix *params, clprune_mat dx, clprune_mat work,
    const clprune_token_mix *grads, cl_event *event)
{
    ENTER_CONTEXT(context);
    REQUIRE(params != NULL && grads != NULL, CLPRUNE_INVALID_ARGUMENT, "params or grads is NULL");
    TRY(clprune__check_reserved(context, "params", params->reserved, sizeof params->reserved));
    TRY(clprune__check_reserved(context, "grads", grads->reserved, sizeof grads->reserved));
    TRY(check(context, batch, x, params, dx, work, grads));
    TRY(scaled_input(context, x, params, work));
    TRY(clprune__gemm_sum_nt(context, batch, beta, dx, work, NULL, grads->w, NULL));
    TRY(back_through_tokens(context, batch, dx, params->w, work));
    return finish(context, beta, x, params, work, dx, grads, event);
}
