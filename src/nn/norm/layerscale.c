#include "clprune/layerscale.h"

#include "nn/layers/sums.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def layerscale_forward_kernel = {
    "norm/layerscale.cl", "layerscale_forward"};
static const clprune__kernel_def layerscale_backward_kernel = {
    "norm/layerscale.cl", "layerscale_backward"};

clprune_status clprune_layerscale_forward(clprune_context *context, clprune_mat x, clprune_mat t,
    clprune_mat ls, clprune_mat y, cl_event *event)
{
    ENTER(context);
    enum { X, T, LS, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols}, {"t", t, x.rows, x.cols},
        {"ls", ls, 1, x.cols}, {"y", y, x.rows, x.cols, .in_place = 1u << X | 1u << T}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    const clprune_mat mats[ALL] = {x, t, ls, y};
    return clprune__rowwise_run(context, &layerscale_forward_kernel, &plan, ALL, mats, event);
}

static clprune_status check_backward(clprune_context *context, clprune_mat t, clprune_mat ls,
    clprune_mat dy, clprune_mat dt, const clprune_layerscale_grads *grads)
{
    enum { T, LS, DY, DT, DLS, DB, DB_TOKENS, ALL };
    const size_t rows = t.rows, cols = t.cols, tokens = grads->db_tokens.cols;
    const bool rest = !clprune__is_absent(grads->db_tokens) && (tokens == 0 || rows % tokens != 0);
    const clprune__operand operands[ALL] = {{"t", t, rows, cols, .bf16 = true}, {"ls", ls, 1, cols},
        {"dy", dy, rows, cols}, {"dt", dt, rows, cols, .in_place = 1u << T},
        {"dls", grads->dls, 1, cols}, {"db", grads->db, 1, cols, .optional = true},
        {"db_tokens", grads->db_tokens, 1, tokens, .optional = true}};
    TRY(clprune__check_operands(context, operands, DT, ALL));
    REQUIRE(!rest, CLPRUNE_INVALID_SIZE,
        "db_tokens has %zu columns, expected a divisor of the %zu rows of t", tokens, rows);
    return CLPRUNE_SUCCESS;
}

/* Forward: y = x + ls * t, t = x * w^T + 1 * b or, for each sample, w * x + b^T * 1. */
clprune_status clprune_layerscale_backward(clprune_context *context, float beta, clprune_mat t,
    clprune_mat ls, clprune_mat dy, clprune_mat dt, const clprune_layerscale_grads *grads,
    cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    REQUIRE(grads != NULL, CLPRUNE_INVALID_ARGUMENT, "grads is NULL");
    TRY(check_backward(context, t, ls, dy, dt, grads));
    const clprune_mat db = grads->db, db_tokens = grads->db_tokens;
    const bool tokens = !clprune__is_absent(db_tokens);
    const size_t sums = clprune__is_absent(db) ? 1 : 2;
    clprune__rowwise plan = clprune__sums_plan(
        context, t.rows, t.cols, sums, CLPRUNE__STRIP, tokens ? CLPRUNE__STRIP : 0);
    clprune__define(&plan.defines, "ROW_SUMS", tokens);
    clprune__narrow_define(context, t, CLPRUNE_NO_MAT, &plan.defines);
    clprune_mat partial, row_sums = clprune__untouched(dt); /* without ROW_SUMS */
    TRY(clprune__scratch_mat(context, sums * plan.groups, t.cols, &partial));
    if (tokens)
        TRY(clprune__row_sums(context, t, db_tokens.cols, &row_sums));
    const clprune_mat mats[] = {t, ls, dy, dt, partial, row_sums}, made[2] = {grads->dls, db};
    TRY(clprune__rowwise_run(context, &layerscale_backward_kernel, &plan, 6, mats, NULL));
    if (tokens)
        TRY(clprune__column_sum(context, beta, row_sums, db_tokens, NULL));
    return clprune__column_sums_final(context, beta, plan.groups, partial, sums, made, event);
}
