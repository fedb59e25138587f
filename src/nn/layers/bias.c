#include "nn/layers/bias.h"

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def bias_rows_kernel = {"layers/bias.cl", "bias_rows"};
static const clprune__kernel_def bias_tokens_kernel = {"layers/bias.cl", "bias_tokens"};

clprune_status clprune__check_bias(
    clprune_context *context, clprune_mat b, size_t count, clprune_mat y)
{
    TRY(clprune__check_mat(context, "b", b, 1, count));
    return clprune__check_apart(context, "y", y, "b", b);
}

clprune_status clprune__bias_rows(
    clprune_context *context, clprune_mat b, clprune_mat y, cl_event *event)
{
    TRY(clprune__check_mat(context, "y", y, y.rows, y.cols));
    TRY(clprune__check_bias(context, b, y.cols, y));
    const clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    const clprune_mat mats[] = {b, y};
    return clprune__rowwise_run(context, &bias_rows_kernel, &plan, 2, mats, event);
}

clprune_status clprune__bias_tokens(clprune_context *context, size_t batch, size_t tokens,
    clprune_mat b, clprune_mat y, cl_event *event)
{
    size_t rows;
    REQUIRE(clprune__mul(batch, tokens, &rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu tokens overflow size_t", batch, tokens);
    TRY(clprune__check_mat(context, "y", y, rows, y.cols));
    TRY(clprune__check_bias(context, b, tokens, y));
    const clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &bias_tokens_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, tokens);
    ARG_MATS(&launch, b, y);
    return clprune__rowwise_end(&launch, &plan, event);
}
