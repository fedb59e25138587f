#include "clprune/softmax.h"

#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def forward_kernel = {"layers/softmax.cl", "softmax_forward"};
static const clprune__kernel_def backward_kernel = {"layers/softmax.cl", "softmax_backward"};

clprune_status clprune_softmax_forward(
    clprune_context *context, clprune_mat x, clprune_mat y, cl_event *event)
{
    ENTER(context);
    enum { X, Y, ALL };
    const clprune__operand operands[ALL] = {
        {"x", x, x.rows, x.cols}, {"y", y, x.rows, x.cols, .in_place = 1u << X}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    const clprune__rowwise plan = clprune__team_plan(context, x.rows, x.cols);
    const clprune_mat mats[ALL] = {x, y};
    return clprune__rowwise_run(context, &forward_kernel, &plan, ALL, mats, event);
}

/* Forward: y = exp(x) / sum of exp(x). */
clprune_status clprune_softmax_backward(clprune_context *context, float dx_beta, clprune_mat y,
    clprune_mat dy, clprune_mat dx, cl_event *event)
{
    ENTER(context);
    enum { Y, DY, DX, ALL };
    const bool read_dx = dx_beta != 0.0f;
    const clprune__operand operands[ALL] = {{"y", y, y.rows, y.cols}, {"dy", dy, y.rows, y.cols},
        {"dx", dx, y.rows, y.cols, .in_place = read_dx ? 0u : 1u << DY}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    clprune__rowwise plan = clprune__team_plan(context, y.rows, y.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &backward_kernel, &plan, &launch));
    clprune__arg_float(&launch, dx_beta);
    ARG_MATS(&launch, y, dy, dx);
    return clprune__rowwise_end(&launch, &plan, event);
}
