#include "clprune/affine.h"

#include "nn/column_sum.h"
#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/scratch.h"

static const clprune__kernel_def affine_forward_kernel = {"affine.cl", "affine_forward", "nn.clh"};
static const clprune__kernel_def affine_backward_kernel = {
    "affine.cl", "affine_backward", "nn.clh"};

clprune_status clprune_affine_forward(clprune_context *context, clprune_mat x, clprune_mat alpha,
    clprune_mat beta, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "x", x, x.rows, x.cols));
    TRY(clprune__check_mat(context, "alpha", alpha, 1, x.cols));
    TRY(clprune__check_mat(context, "beta", beta, 1, x.cols));
    TRY(clprune__check_mat(context, "y", y, x.rows, x.cols));
    if (!clprune__same_mat(y, x))
        TRY(clprune__check_apart(context, "y", y, "x", x));
    TRY(clprune__check_apart(context, "y", y, "alpha", alpha));
    TRY(clprune__check_apart(context, "y", y, "beta", beta));
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &affine_forward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, x.rows);
    clprune__arg_ulong(&launch, x.cols);
    clprune__arg_mat(&launch, x);
    clprune__arg_mat(&launch, alpha);
    clprune__arg_mat(&launch, beta);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

static clprune_status check_backward(clprune_context *context, bool accumulate, clprune_mat x,
    clprune_mat alpha, clprune_mat dy, clprune_mat dx, clprune_mat dalpha, clprune_mat dbeta)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "x", x, x.rows, x.cols));
    TRY(clprune__check_mat(context, "alpha", alpha, 1, x.cols));
    TRY(clprune__check_mat(context, "dy", dy, x.rows, x.cols));
    TRY(clprune__check_mat(context, "dx", dx, x.rows, x.cols));
    TRY(clprune__check_mat(context, "dalpha", dalpha, 1, x.cols));
    TRY(clprune__check_mat(context, "dbeta", dbeta, 1, x.cols));
    if (accumulate || !clprune__same_mat(dx, dy))
        TRY(clprune__check_apart(context, "dx", dx, "dy", dy));
    TRY(clprune__check_apart(context, "dx", dx, "x", x));
    TRY(clprune__check_apart(context, "dx", dx, "alpha", alpha));
    TRY(clprune__check_apart(context, "dalpha", dalpha, "dbeta", dbeta));
    const struct {
        const char *name;
        clprune_mat mat;
    } sums[] = {{"dalpha", dalpha}, {"dbeta", dbeta}};
    for (int i = 0; i < 2; i++) {
        TRY(clprune__check_apart(context, sums[i].name, sums[i].mat, "x", x));
        TRY(clprune__check_apart(context, sums[i].name, sums[i].mat, "alpha", alpha));
        TRY(clprune__check_apart(context, sums[i].name, sums[i].mat, "dy", dy));
        TRY(clprune__check_apart(context, sums[i].name, sums[i].mat, "dx", dx));
    }
done:
    return status;
}

clprune_status clprune_affine_backward(clprune_context *context, bool accumulate, clprune_mat x,
    clprune_mat alpha, clprune_mat dy, clprune_mat dx, clprune_mat dalpha, clprune_mat dbeta,
    cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(check_backward(context, accumulate, x, alpha, dy, dx, dalpha, dbeta));
    clprune__rowwise plan = clprune__reduction_plan(context, x.rows, x.cols);
    clprune__define(&plan.defines, "ACCUMULATE", accumulate);
    /* Row 2 g: dalpha of group g; row 2 g + 1: dbeta. */
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, 2 * plan.groups, x.cols, &partial));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &affine_backward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, x.rows);
    clprune__arg_ulong(&launch, x.cols);
    clprune__arg_mat(&launch, x);
    clprune__arg_mat(&launch, alpha);
    clprune__arg_mat(&launch, dy);
    clprune__arg_mat(&launch, dx);
    clprune__arg_mat(&launch, partial);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
    const clprune_mat sums[2] = {dalpha, dbeta};
    TRY(clprune__column_sums_final(context, false, plan.groups, partial, 2, sums, event));
done:
    if (context != NULL)
        clprune__scratch_end(context, mark);
    return status;
}
