#include "ops/codes/rotate_private.h"

#include "runtime/context/fail.h"

static const clprune__kernel_def rotate_rows_kernel = {"codes/rotate.cl", "rotate_rows"};

void clprune__rotate_defines(size_t group, clprune__defines *defines)
{
    clprune__define(defines, "BLOCK", group & (~group + 1)); /* the largest power of two in it */
    clprune__define(defines, "VW", 16);
}

clprune_status clprune__rotate(
    clprune_context *context, size_t group, bool back, clprune_mat x, cl_event *event)
{
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", plan.local);
    clprune__rotate_defines(group, &defines);
    clprune__define(&defines, "BACK", back);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &rotate_rows_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, plan.group_rows, x.rows, x.cols);
    clprune__arg_mat(&launch, x);
    return clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event);
}
