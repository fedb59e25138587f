#include "clprune/gelu.h"

#include "nn/column_sum.h"
#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/scratch.h"

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

static clprune_status check_recompute(clprune_context *context, clprune_mat h, clprune_mat dg,
    clprune_mat g, clprune_mat dh, clprune_mat db)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "h", h, h.rows, h.cols));
    TRY(clprune__check_mat(context, "dg", dg, h.rows, h.cols));
    TRY(clprune__check_mat(context, "g", g, h.rows, h.cols));
    TRY(clprune__check_mat(context, "dh", dh, h.rows, h.cols));
    TRY(clprune__check_mat(context, "db", db, 1, h.cols));
    if (!clprune__same_mat(g, h))
        TRY(clprune__check_apart(context, "g", g, "h", h));
    if (!clprune__same_mat(dh, dg))
        TRY(clprune__check_apart(context, "dh", dh, "dg", dg));
    TRY(clprune__check_apart(context, "g", g, "dg", dg));
    TRY(clprune__check_apart(context, "dh", dh, "h", h));
    TRY(clprune__check_apart(context, "dh", dh, "g", g));
    TRY(clprune__check_apart(context, "db", db, "h", h));
    TRY(clprune__check_apart(context, "db", db, "dg", dg));
    TRY(clprune__check_apart(context, "db", db, "g", g));
    TRY(clprune__check_apart(context, "db", db, "dh", dh));
done:
    return status;
}

clprune_status clprune_gelu_backward_recompute(clprune_context *context, bool accumulate,
    clprune_mat h, clprune_mat dg, clprune_mat g, clprune_mat dh, clprune_mat db, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(check_recompute(context, h, dg, g, dh, db));
    const clprune__rowwise plan = clprune__reduction_plan(context, h.rows, h.cols);
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, plan.groups, h.cols, &partial));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__GELU_BACKWARD_RECOMPUTE, plan.defines, &launch));
    clprune__arg_ulong(&launch, h.rows);
    clprune__arg_ulong(&launch, h.cols);
    clprune__arg_mat(&launch, h);
    clprune__arg_mat(&launch, dg);
    clprune__arg_mat(&launch, g);
    clprune__arg_mat(&launch, dh);
    clprune__arg_mat(&launch, partial);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
    TRY(clprune__column_sums_final(context, accumulate, plan.groups, partial, 1, &db, event));
done:
    if (context != NULL)
        clprune__scratch_end(context, mark);
    return status;
}
