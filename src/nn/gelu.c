#include "clprune/gelu.h"

#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/rowwise.h"

clprune_status clprune_gelu_forward(
    clprune_context *context, clprune_mat h, clprune_mat g, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "h", h, h.rows, h.cols));
    TRY(clprune__check_mat(context, "g", g, h.rows, h.cols));
    if (!clprune__same_mat(g, h))
        TRY(clprune__check_apart(context, "g", g, "h", h));
    const clprune__rowwise plan = clprune__rowwise_plan(context, h.rows, h.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__GELU_FORWARD, plan.defines, &launch));
    clprune__arg_ulong(&launch, h.rows);
    clprune__arg_ulong(&launch, h.cols);
    clprune__arg_mat(&launch, h);
    clprune__arg_mat(&launch, g);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

clprune_status clprune_gelu_backward(
    clprune_context *context, clprune_mat h, clprune_mat dg, clprune_mat dh, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "h", h, h.rows, h.cols));
    TRY(clprune__check_mat(context, "dg", dg, h.rows, h.cols));
    TRY(clprune__check_mat(context, "dh", dh, h.rows, h.cols));
    if (!clprune__same_mat(dh, h))
        TRY(clprune__check_apart(context, "dh", dh, "h", h));
    if (!clprune__same_mat(dh, dg))
        TRY(clprune__check_apart(context, "dh", dh, "dg", dg));
    const clprune__rowwise plan = clprune__rowwise_plan(context, h.rows, h.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__GELU_BACKWARD, plan.defines, &launch));
    clprune__arg_ulong(&launch, h.rows);
    clprune__arg_ulong(&launch, h.cols);
    clprune__arg_mat(&launch, h);
    clprune__arg_mat(&launch, dg);
    clprune__arg_mat(&launch, dh);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}
