#include "nn/bias.h"

#include "core/checked.h"
#include "ops/gemm_private.h"
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

clprune_status clprune__product_bias_rows(clprune_context *context, clprune_mat x, clprune_mat w,
    clprune_mat b, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    bool fused = false;
    TRY(clprune__check_mat(context, "b", b, 1, y.cols));
    TRY(clprune__check_apart(context, "y", y, "b", b));
    TRY(clprune__gemm_plus_bias(
        context, 1, true, x, 0, w, 0, CLPRUNE__BIAS_OF_COLUMNS, b, y, 0, &fused, NULL));
    if (fused)
        TRY(clprune__empty_event(context, event));
    else
        TRY(clprune__bias_rows(context, b, y, event));
done:
    return status;
}

clprune_status clprune__product_bias_tokens(clprune_context *context, size_t batch, clprune_mat x,
    clprune_mat w, clprune_mat b, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    bool fused = false;
    TRY(clprune__check_mat(context, "b", b, 1, w.rows));
    TRY(clprune__check_apart(context, "y", y, "b", b));
    TRY(clprune__gemm_plus_bias(context, batch, false, w, 0, clprune_mat_rows(x, 0, w.cols),
        w.cols * x.ld, CLPRUNE__BIAS_OF_ROWS, b, clprune_mat_rows(y, 0, w.rows), w.rows * y.ld,
        &fused, NULL));
    if (fused)
        TRY(clprune__empty_event(context, event));
    else
        TRY(clprune__bias_tokens(context, batch, w.rows, b, y, event));
done:
    return status;
}
