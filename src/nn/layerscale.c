#include "clprune/layerscale.h"

#include "nn/column_sum.h"
#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/scratch.h"

clprune_status clprune_layerscale_forward(clprune_context *context, clprune_mat x, clprune_mat t,
    clprune_mat ls, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "x", x, x.rows, x.cols));
    TRY(clprune__check_mat(context, "t", t, x.rows, x.cols));
    TRY(clprune__check_mat(context, "ls", ls, 1, x.cols));
    TRY(clprune__check_mat(context, "y", y, x.rows, x.cols));
    if (!clprune__same_mat(y, x))
        TRY(clprune__check_apart(context, "y", y, "x", x));
    if (!clprune__same_mat(y, t))
        TRY(clprune__check_apart(context, "y", y, "t", t));
    TRY(clprune__check_apart(context, "y", y, "ls", ls));
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__LAYERSCALE_FORWARD, plan.defines, &launch));
    clprune__arg_ulong(&launch, x.rows);
    clprune__arg_ulong(&launch, x.cols);
    clprune__arg_mat(&launch, x);
    clprune__arg_mat(&launch, t);
    clprune__arg_mat(&launch, ls);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

clprune_status clprune_layerscale_backward(clprune_context *context, clprune_mat t, clprune_mat ls,
    clprune_mat dy, clprune_mat dt, clprune_mat dls, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(clprune__check_mat(context, "t", t, t.rows, t.cols));
    TRY(clprune__check_mat(context, "ls", ls, 1, t.cols));
    TRY(clprune__check_mat(context, "dy", dy, t.rows, t.cols));
    TRY(clprune__check_mat(context, "dt", dt, t.rows, t.cols));
    TRY(clprune__check_mat(context, "dls", dls, 1, t.cols));
    if (!clprune__same_mat(dt, t))
        TRY(clprune__check_apart(context, "dt", dt, "t", t));
    TRY(clprune__check_apart(context, "dt", dt, "dy", dy));
    TRY(clprune__check_apart(context, "dt", dt, "ls", ls));
    TRY(clprune__check_apart(context, "dls", dls, "t", t));
    TRY(clprune__check_apart(context, "dls", dls, "ls", ls));
    TRY(clprune__check_apart(context, "dls", dls, "dy", dy));
    TRY(clprune__check_apart(context, "dls", dls, "dt", dt));
    const clprune__rowwise plan = clprune__reduction_plan(context, t.rows, t.cols);
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, plan.groups, t.cols, &partial));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__LAYERSCALE_BACKWARD, plan.defines, &launch));
    clprune__arg_ulong(&launch, t.rows);
    clprune__arg_ulong(&launch, t.cols);
    clprune__arg_mat(&launch, t);
    clprune__arg_mat(&launch, ls);
    clprune__arg_mat(&launch, dy);
    clprune__arg_mat(&launch, dt);
    clprune__arg_mat(&launch, partial);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
    TRY(clprune__column_sums_final(context, false, plan.groups, partial, 1, &dls, event));
done:
    if (context != NULL)
        clprune__scratch_end(context, mark);
    return status;
}
