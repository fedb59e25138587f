#include "clprune/relu.h"

#include "core/checked.h"
#include "nn/layers/activation_private.h"
#include "nn/layers/sums.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def relu_forward_kernel = {"layers/relu.cl", "relu_forward"};
static const clprune__kernel_def relu_backward_kernel = {"layers/relu.cl", "relu_backward"};

static clprune_status mask_sizes(
    clprune_context *context, size_t rows, size_t cols, clprune_relu_mask_sizes *sizes)
{
    REQUIRE(sizes != NULL, CLPRUNE_INVALID_ARGUMENT, "sizes is NULL");
    clprune_relu_mask_sizes found = {.cols = clprune__ceil_div(cols, 32)};
    *sizes = (clprune_relu_mask_sizes){0};
    REQUIRE(clprune__mul3(rows, found.cols, sizeof(cl_uint), &found.bytes), CLPRUNE_SIZE_OVERFLOW,
        "a mask of %zu x %zu overflows size_t", rows, cols);
    *sizes = found;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_relu_mask_size_query(
    size_t rows, size_t cols, clprune_relu_mask_sizes *sizes)
{
    return mask_sizes(NULL, rows, cols, sizes);
}

/* A plan whose vectors cover whole bytes of the mask. */
static clprune__rowwise plan_bytes(
    const clprune_context *context, size_t rows, size_t cols, size_t sums)
{
    const size_t width = clprune__max(8, clprune__vector_width(context));
    return clprune__sums_plan_of(context, rows, cols, sums, 1, 0, width);
}

clprune_status clprune__relu_forward(clprune_context *context, clprune_activation f, clprune_mat x,
    clprune_mat b, clprune_mat y, clprune_mat mask, cl_event *event)
{
    const bool bias = !clprune__is_absent(b), keep = !clprune__is_absent(mask);
    clprune_relu_mask_sizes sizes;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    TRY(mask_sizes(context, x.rows, x.cols, &sizes));
    enum { B, X, Y, MASK, ALL };
    const clprune__operand operands[ALL] = {{"b", b, 1, x.cols, .optional = true},
        {"x", x, x.rows, x.cols}, {"y", y, x.rows, x.cols, .in_place = 1u << X},
        {"mask", mask, x.rows, sizes.cols, .optional = true}};
    TRY(clprune__check_operands(context, operands, X, ALL));
    clprune__rowwise plan = plan_bytes(context, x.rows, x.cols, 0);
    clprune__define(&plan.defines, "BIAS", bias);
    clprune__define(&plan.defines, "KEEP", keep);
    if (f == CLPRUNE_ACTIVATION_RELU6)
        clprune__define(&plan.defines, "SIX", 1);
    const clprune_mat mats[ALL] = {
        bias ? b : clprune__untouched(x), x, y, keep ? mask : clprune__untouched(y)};
    return clprune__rowwise_run(context, &relu_forward_kernel, &plan, ALL, mats, event);
}

/* Forward: y = max(x, 0), or at most 6. */
clprune_status clprune__relu_backward(clprune_context *context, float beta, clprune_mat dy,
    clprune_mat mask, clprune_mat dx, clprune_mat db, cl_event *event)
{
    clprune_relu_mask_sizes sizes;
    SCRATCH_SCOPE(context);
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    const size_t rows = dy.rows, cols = dy.cols;
    TRY(mask_sizes(context, rows, cols, &sizes));
    enum { DY, MASK, DX, DB, ALL };
    const clprune__operand operands[ALL] = {{"dy", dy, rows, cols},
        {"mask", mask, rows, sizes.cols},
        {"dx", dx, rows, cols, .in_place = 1u << DY, .bf16 = true},
        {"db", db, 1, cols, .optional = true}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    const size_t sums = clprune__is_absent(db) ? 0 : 1;
    clprune__rowwise plan = plan_bytes(context, rows, cols, sums);
    clprune__narrow_define(context, CLPRUNE_NO_MAT, dx, &plan.defines);
    clprune_mat partial = clprune__untouched(dx); /* without sums */
    if (sums > 0)
        TRY(clprune__scratch_mat(context, plan.groups, cols, &partial));
    const clprune_mat mats[ALL] = {dy, mask, dx, partial};
    TRY(clprune__rowwise_run(
        context, &relu_backward_kernel, &plan, ALL, mats, sums > 0 ? NULL : event));
    if (sums > 0)
        TRY(clprune__column_sums_final(context, beta, plan.groups, partial, 1, &db, event));
    return CLPRUNE_SUCCESS;
}
