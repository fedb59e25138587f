#include "nn/bias.h"

#include "core/checked.h"
#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/rowwise.h"

clprune_status clprune__bias_rows(
    clprune_context *context, clprune_mat b, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "y", y, y.rows, y.cols));
    TRY(clprune__check_mat(context, "b", b, 1, y.cols));
    TRY(clprune__check_apart(context, "y", y, "b", b));
    const clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BIAS_ROWS, plan.defines, &launch));
    clprune__arg_ulong(&launch, y.rows);
    clprune__arg_ulong(&launch, y.cols);
    clprune__arg_mat(&launch, b);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

clprune_status clprune__bias_tokens(clprune_context *context, size_t batch, size_t tokens,
    clprune_mat b, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    size_t rows;
    REQUIRE(clprune__mul(batch, tokens, &rows), CLPRUNE_SIZE_OVERFLOW, "%zu samples of %zu tokens",
        batch, tokens);
    TRY(clprune__check_mat(context, "y", y, rows, y.cols));
    TRY(clprune__check_mat(context, "b", b, 1, tokens));
    TRY(clprune__check_apart(context, "y", y, "b", b));
    const clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BIAS_TOKENS, plan.defines, &launch));
    clprune__arg_ulong(&launch, y.rows);
    clprune__arg_ulong(&launch, y.cols);
    clprune__arg_ulong(&launch, tokens);
    clprune__arg_mat(&launch, b);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}
