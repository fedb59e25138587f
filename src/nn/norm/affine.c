#include "clprune/affine.h"

#include "nn/layers/sums.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def affine_forward_kernel = {"norm/affine.cl", "affine_forward"};
static const clprune__kernel_def affine_backward_kernel = {"norm/affine.cl", "affine_backward"};

clprune_status clprune_affine_forward(clprune_context *context, clprune_mat x, clprune_mat alpha,
    clprune_mat beta, clprune_mat y, cl_event *event)
{
    ENTER(context);
    enum { X, ALPHA, BETA, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols, .bf16 = true},
        {"alpha", alpha, 1, x.cols}, {"beta", beta, 1, x.cols},
        {"y", y, x.rows, x.cols, .in_place = 1u << X, .bf16 = true}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__narrow_define(context, x, y, &plan.defines);
    const clprune_mat mats[] = {x, alpha, beta, y};
    return clprune__rowwise_run(context, &affine_forward_kernel, &plan, ALL, mats, event);
}

/* Forward: y = alpha * x + beta. */
clprune_status clprune_affine_backward(clprune_context *context, float beta, float dx_beta,
    clprune_mat x, clprune_mat alpha, clprune_mat dy, clprune_mat dx, const clprune_affine *grads,
    cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    REQUIRE(grads != NULL, CLPRUNE_INVALID_ARGUMENT, "grads is NULL");
    enum { IN_X, ALPHA, DY, DX, DALPHA, DBETA, ALL };
    const bool read_dx = dx_beta != 0.0f;
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols, .bf16 = true},
        {"alpha", alpha, 1, x.cols}, {"dy", dy, x.rows, x.cols},
        {"dx", dx, x.rows, x.cols, .in_place = read_dx ? 0u : 1u << DY},
        {"dalpha", grads->alpha, 1, x.cols}, {"dbeta", grads->beta, 1, x.cols}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    clprune__rowwise plan = clprune__sums_plan(context, x.rows, x.cols, 2, CLPRUNE__STRIP, 0);
    clprune__narrow_define(context, x, CLPRUNE_NO_MAT, &plan.defines);
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, 2 * plan.groups, x.cols, &partial));
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &affine_backward_kernel, &plan, &launch));
    clprune__arg_float(&launch, dx_beta);
    ARG_MATS(&launch, x, alpha, dy, dx, partial);
    TRY(clprune__rowwise_end(&launch, &plan, NULL));
    const clprune_mat sums[2] = {grads->alpha, grads->beta};
    return clprune__column_sums_final(context, beta, plan.groups, partial, 2, sums, event);
}
