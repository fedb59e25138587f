#include "clprune/layerscale.h"

#include "nn/column_sum.h"
#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/scratch.h"

static const clprune__kernel_def layerscale_forward_kernel = {
    "layerscale.cl", "layerscale_forward", "nn.clh"};
static const clprune__kernel_def layerscale_backward_kernel = {
    "layerscale.cl", "layerscale_backward", "nn.clh row_sums.clh"};

clprune_status clprune_layerscale_forward(clprune_context *context, clprune_mat x, clprune_mat t,
    clprune_mat ls, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "x", x, x.rows, x.cols));
    TRY(clprune__check_mat(context, "t", t, x.rows, x.cols));
    TRY(clprune__check_mat(context, "ls", ls, 1, x.cols));
    TRY(clprune__check_mat(context, "y", y, x.rows, x.cols));
    if (!clprune__same_mat(y, x))
        TRY(clprune__check_apart(context, "y", y, "x", x));
    if (!clprune__same_mat(y, t))
        TRY(clprune__check_apart(context, "y", y, "t", t));
    TRY(clprune__check_apart(context, "y", y, "ls", ls));
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &layerscale_forward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, x.rows);
    clprune__arg_ulong(&launch, x.cols);
    clprune__arg_mat(&launch, x);
    clprune__arg_mat(&launch, t);
    clprune__arg_mat(&launch, ls);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

static clprune_status check_backward(clprune_context *context, clprune_mat t, clprune_mat ls,
    clprune_mat dy, clprune_mat dt, clprune_mat dls, clprune_mat db, clprune_mat db_tokens)
{
    clprune_status status = CLPRUNE_SUCCESS;
    enum { INPUTS = 4, ALL = 7 }; /* dt, of which one overlap is allowed, is checked by itself */
    const size_t rows = t.rows, cols = t.cols, tokens = db_tokens.cols;
    const bool rest = db_tokens.buffer != NULL && (tokens == 0 || rows % tokens != 0);
    const clprune__operand operands[ALL] = {{"t", t, rows, cols}, {"ls", ls, 1, cols},
        {"dy", dy, rows, cols}, {"dt", dt, rows, cols}, {"dls", dls, 1, cols},
        {"db", db, db.buffer != NULL ? 1 : db.rows, db.buffer != NULL ? cols : db.cols},
        {"db_tokens", db_tokens, db_tokens.buffer != NULL ? 1 : db_tokens.rows, tokens}};
    TRY(clprune__check_operands(context, operands, INPUTS, ALL));
    if (!clprune__same_mat(dt, t))
        TRY(clprune__check_apart(context, "dt", dt, "t", t));
    TRY(clprune__check_apart(context, "dt", dt, "dy", dy));
    TRY(clprune__check_apart(context, "dt", dt, "ls", ls));
    REQUIRE(!rest, CLPRUNE_INVALID_SIZE, "db_tokens has %zu columns, t %zu rows, not a multiple",
        tokens, rows);
done:
    return status;
}

/* Forward: y = x + ls * t, t = x * w^T + 1 * b or, for each sample, w * x + b^T * 1. */
clprune_status clprune_layerscale_backward(clprune_context *context, clprune_mat t, clprune_mat ls,
    clprune_mat dy, clprune_mat dt, clprune_mat dls, clprune_mat db, clprune_mat db_tokens,
    cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(check_backward(context, t, ls, dy, dt, dls, db, db_tokens));
    const bool tokens = db_tokens.buffer != NULL;
    const size_t sums = db.buffer != NULL ? 2 : 1;
    clprune__rowwise plan = clprune__reduction_plan(context, t.rows, t.cols);
    clprune__define(&plan.defines, "SUMS", sums);
    clprune__define(&plan.defines, "ROW_SUMS", tokens);
    clprune_mat partial, row_sums = dt; /* a buffer that is not touched */
    TRY(clprune__scratch_mat(context, sums * plan.groups, t.cols, &partial));
    if (tokens)
        TRY(clprune__row_sums(context, t, db_tokens.cols, &row_sums));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &layerscale_backward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, t.rows);
    clprune__arg_ulong(&launch, t.cols);
    clprune__arg_mat(&launch, t);
    clprune__arg_mat(&launch, ls);
    clprune__arg_mat(&launch, dy);
    clprune__arg_mat(&launch, dt);
    clprune__arg_mat(&launch, partial);
    clprune__arg_mat(&launch, row_sums);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
    if (tokens)
        TRY(clprune__column_sum(context, false, row_sums, db_tokens, NULL));
    const clprune_mat made[2] = {dls, db};
    TRY(clprune__column_sums_final(context, false, plan.groups, partial, sums, made, event));
done:
    if (context != NULL)
        clprune__scratch_end(context, mark);
    return status;
}
