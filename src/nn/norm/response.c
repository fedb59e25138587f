/* Responses: the products with x are those of a gate. */
#include "clprune/response.h"

#include "clprune/gate.h"
#include "nn/images/token_mean_private.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def forward_kernel = {"norm/response.cl", "response_forward"};
static const clprune__kernel_def backward_kernel = {"norm/response.cl", "response_backward"};

static clprune_status check(clprune_context *context, size_t batch, float eps, clprune_mat x)
{
    REQUIRE(eps > 0.0f, CLPRUNE_INVALID_ARGUMENT, "eps is %g, expected above 0", (double)eps);
    return clprune__check_batch(context, batch, x);
}

/* Of each sample and feature, in scratch. */
static clprune_status sum_squares(
    clprune_context *context, size_t batch, clprune_mat x, clprune_mat *squares)
{
    const clprune_mat none = CLPRUNE_NO_MAT;
    TRY(clprune__scratch_mat(context, batch, x.cols, squares));
    return clprune_gate_backward(context, batch, 0, x, none, x, none, *squares, NULL);
}

clprune_status clprune_response_forward(clprune_context *context, size_t batch, float eps,
    clprune_mat x, clprune_mat y, cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    enum { X, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols}, {"y", y, batch, x.cols}};
    clprune_mat squares;
    TRY(check(context, batch, eps, x));
    TRY(clprune__check_operands(context, operands, Y, ALL));
    TRY(sum_squares(context, batch, x, &squares));
    const clprune__rowwise plan = clprune__team_plan(context, batch, x.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &forward_kernel, &plan, &launch));
    clprune__arg_float(&launch, eps);
    ARG_MATS(&launch, squares, y);
    return clprune__rowwise_end(&launch, &plan, event);
}

/* Forward: y = g / (mean g + eps), g = sqrt(sum x^2). */
clprune_status clprune_response_backward(clprune_context *context, size_t batch, float eps,
    float dx_beta, clprune_mat x, clprune_mat dy, clprune_mat dx, cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    enum { X, DY, DX, ALL };
    const clprune__operand operands[ALL] = {
        {"x", x, x.rows, x.cols}, {"dy", dy, batch, x.cols}, {"dx", dx, x.rows, x.cols}};
    const clprune_mat none = CLPRUNE_NO_MAT;
    clprune_mat squares, slopes;
    TRY(check(context, batch, eps, x));
    TRY(clprune__check_operands(context, operands, DX, ALL));
    TRY(sum_squares(context, batch, x, &squares));
    TRY(clprune__scratch_mat(context, batch, x.cols, &slopes));
    const clprune__rowwise plan = clprune__team_plan(context, batch, x.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &backward_kernel, &plan, &launch));
    clprune__arg_float(&launch, eps);
    ARG_MATS(&launch, squares, dy, slopes);
    TRY(clprune__rowwise_end(&launch, &plan, NULL));
    return clprune_gate_backward(context, batch, dx_beta, none, slopes, x, dx, none, event);
}
