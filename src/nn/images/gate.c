#include "clprune/gate.h"

#include "nn/images/token_mean_private.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def gate_forward_kernel = {"images/gate.cl", "gate_forward"};
static const clprune__kernel_def gate_backward_kernel = {"images/gate.cl", "gate_backward"};
static const clprune__kernel_def gate_rows_backward_kernel = {
    "images/gate.cl", "gate_rows_backward"};

clprune_status clprune_gate_forward(clprune_context *context, size_t batch, clprune_mat x,
    clprune_mat g, clprune_mat y, cl_event *event)
{
    ENTER(context);
    TRY(clprune__check_batch(context, batch, x));
    enum { X, G, Y, ALL };
    const unsigned places = batch == x.rows ? 1u << X | 1u << G : 1u << X;
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols}, {"g", g, batch, x.cols},
        {"y", y, x.rows, x.cols, .in_place = places}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &gate_forward_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, batch > 0 ? x.rows / batch : 0);
    ARG_MATS(&launch, x, g, y);
    return clprune__rowwise_end(&launch, &plan, event);
}

/* Forward: y = x * g. */
clprune_status clprune_gate_backward(clprune_context *context, size_t batch, float dx_beta,
    clprune_mat x, clprune_mat g, clprune_mat dy, clprune_mat dx, clprune_mat dg, cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    const bool give_dx = !clprune__is_absent(dx), give_dg = !clprune__is_absent(dg);
    const bool read_dx = give_dx && dx_beta != 0.0f;
    const size_t rows = dy.rows, cols = dy.cols;
    TRY(clprune__check_batch(context, batch, dy));
    enum { X, G, DY, DX, DG, ALL };
    const clprune__operand operands[ALL] = {{"x", x, rows, cols, .optional = !give_dg},
        {"g", g, batch, cols, .optional = !give_dx}, {"dy", dy, rows, cols},
        {"dx", dx, rows, cols, .optional = true, .in_place = read_dx ? 0u : 1u << DY},
        {"dg", dg, batch, cols, .optional = true}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    if (!give_dx && !give_dg)
        return clprune__empty_event(context, event);
    if (rows == 0 && give_dg) /* sums of nothing */
        return clprune__token_sum(context, batch, 0, 1.0f, dy, dg, event);
    const bool apart = batch == rows; /* samples of one row */
    clprune__rowwise plan = apart ? clprune__rowwise_plan(context, rows, cols)
                                  : clprune__lanes_plan(context, rows, cols, give_dg ? 1 : 0,
                                        clprune__vector_width(context));
    if (apart) {
        clprune__define(&plan.defines, "SUMS", give_dg);
    } else {
        plan.groups = batch;
        plan.group_rows = batch > 0 ? rows / batch : 0;
        plan.global = rows > 0 && cols > 0 ? batch * plan.local : 0;
    }
    clprune__define(&plan.defines, "GIVE_DX", give_dx);
    const size_t slices = apart ? 1 : plan.local / plan.lanes;
    clprune_mat partial = clprune__untouched(give_dg ? dg : dy);
    if (give_dg && slices > 1)
        TRY(clprune__scratch_mat(context, slices * batch, cols, &partial));
    clprune__launch launch;
    TRY(clprune__rowwise_begin(
        context, apart ? &gate_rows_backward_kernel : &gate_backward_kernel, &plan, &launch));
    if (!apart)
        launch.least_group = 0; /* `partial` has rows for all slices */
    clprune__arg_float(&launch, dx_beta);
    ARG_MATS(&launch, give_dg ? x : dy, give_dx ? g : dy, dy, give_dx ? dx : dy, partial);
    const bool more = give_dg && slices > 1;
    TRY(clprune__rowwise_end(&launch, &plan, more ? NULL : event));
    if (more)
        TRY(clprune__token_sum(context, batch, slices, 1.0f, partial, dg, event));
    return CLPRUNE_SUCCESS;
}
