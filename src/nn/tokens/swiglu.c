#include "clprune/swiglu.h"

#include "clprune/activation.h"
#include "core/checked.h"
#include "ops/device/bf16.h"
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

static clprune_status make_plan(
    clprune_context *context, clprune_activation activation, clprune_mat y, clprune__rowwise *plan)
{
    REQUIRE(activation > CLPRUNE_ACTIVATION_RELU && activation <= CLPRUNE_ACTIVATION_SIGMOID &&
                activation != CLPRUNE_ACTIVATION_RELU6,
        CLPRUNE_INVALID_ARGUMENT, "activation is %d, expected that of a gated unit",
        (int)activation);
    *plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__define(&plan->defines, "ACTIVATION", activation);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_glu_forward(clprune_context *context, clprune_activation activation,
    clprune_mat x, clprune_mat y, cl_event *event)
{
    ENTER(context);
    size_t both;
    clprune__rowwise plan;
    TRY(count_columns(context, y.cols, &both));
    enum { X, Y, ALL };
    const clprune__operand operands[ALL] = {
        {"x", x, y.rows, both}, {"y", y, y.rows, y.cols, .bf16 = true}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    TRY(make_plan(context, activation, y, &plan));
    clprune__narrow_define(context, CLPRUNE_NO_MAT, y, &plan.defines);
    const clprune_mat mats[ALL] = {x, y};
    return clprune__rowwise_run(context, &swiglu_forward_kernel, &plan, ALL, mats, event);
}

/* Forward: y = f(a) * b. */
clprune_status clprune_glu_backward(clprune_context *context, clprune_activation activation,
    clprune_mat x, clprune_mat dy, clprune_mat dx, cl_event *event)
{
    ENTER(context);
    size_t both;
    clprune__rowwise plan;
    TRY(count_columns(context, dy.cols, &both));
    enum { X, DY, DX, ALL };
    const clprune__operand operands[ALL] = {{"x", x, dy.rows, both}, {"dy", dy, dy.rows, dy.cols},
        {"dx", dx, dy.rows, both, .in_place = 1u << X, .bf16 = true}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    TRY(make_plan(context, activation, dy, &plan));
    clprune_mat halves = dx; /* as far as both are aligned */
    halves.offset |= dy.cols;
    clprune__narrow_define(context, CLPRUNE_NO_MAT, halves, &plan.defines);
    const clprune_mat mats[ALL] = {x, dy, dx};
    return clprune__rowwise_run(context, &swiglu_backward_kernel, &plan, ALL, mats, event);
}
