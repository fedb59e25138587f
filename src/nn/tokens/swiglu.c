#include "clprune/swiglu.h"

#include "clprune/activation.h"
#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def swiglu_forward_kernel = {"tokens/swiglu.cl", "swiglu_forward"};
static const clprune__kernel_def swiglu_backward_kernel = {"tokens/swiglu.cl", "swiglu_backward"};

/* Columns of x. */
static clprune_status count_columns(clprune_context *context, size_t cols, size_t *both)
{
    REQUIRE(clprune__mul(cols, 2, both), CLPRUNE_SIZE_OVERFLOW, "2 x %zu columns overflow size_t",
        cols);
    return CLPRUNE_SUCCESS;
}

static clprune__rowwise plan_of(const clprune_context *context, clprune_mat y)
{
    clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__define(&plan.defines, "ACTIVATION", CLPRUNE_ACTIVATION_SILU);
    return plan;
}

clprune_status clprune_swiglu_forward(
    clprune_context *context, clprune_mat x, clprune_mat y, cl_event *event)
{
    ENTER(context);
    size_t both;
    TRY(count_columns(context, y.cols, &both));
    enum { X, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, y.rows, both}, {"y", y, y.rows, y.cols}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    const clprune__rowwise plan = plan_of(context, y);
    const clprune_mat mats[ALL] = {x, y};
    return clprune__rowwise_run(context, &swiglu_forward_kernel, &plan, ALL, mats, event);
}

/* Forward: y = silu(a) * b. */
clprune_status clprune_swiglu_backward(
    clprune_context *context, clprune_mat x, clprune_mat dy, clprune_mat dx, cl_event *event)
{
    ENTER(context);
    size_t both;
    TRY(count_columns(context, dy.cols, &both));
    enum { X, DY, DX, ALL };
    const clprune__operand operands[ALL] = {{"x", x, dy.rows, both}, {"dy", dy, dy.rows, dy.cols},
        {"dx", dx, dy.rows, both, .in_place = 1u << X}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    const clprune__rowwise plan = plan_of(context, dy);
    const clprune_mat mats[ALL] = {x, dy, dx};
    return clprune__rowwise_run(context, &swiglu_backward_kernel, &plan, ALL, mats, event);
}
