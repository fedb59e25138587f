#include "clprune/rms_norm.h"

#include "nn/layers/sums.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def forward_kernel = {"norm/rms_norm.cl", "rms_norm_forward"};
static const clprune__kernel_def apply_kernel = {"norm/rms_norm.cl", "rms_norm_apply"};
static const clprune__kernel_def backward_kernel = {"norm/rms_norm.cl", "rms_norm_backward"};

clprune_status clprune_rms_norm_forward(clprune_context *context, float eps, clprune_mat x,
    clprune_mat gamma, clprune_mat y, clprune_mat inv, cl_event *event)
{
    ENTER(context);
    REQUIRE(eps > 0.0f, CLPRUNE_INVALID_ARGUMENT, "eps is %g, expected above 0", (double)eps);
    enum { X, GAMMA, Y, INV, ALL };
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols, .bf16 = true},
        {"gamma", gamma, 1, x.cols, .optional = true},
        {"y", y, x.rows, x.cols, .in_place = 1u << X, .bf16 = true},
        {"inv", inv, x.rows, 1, .optional = true}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    clprune__rowwise plan = clprune__team_plan(context, x.rows, x.cols);
    clprune__define(&plan.defines, "AFFINE", !clprune__is_absent(gamma));
    clprune__define(&plan.defines, "KEEP", !clprune__is_absent(inv));
    clprune__narrow_define(context, x, y, &plan.defines);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &forward_kernel, &plan, &launch));
    clprune__arg_float(&launch, eps);
    ARG_MATS(&launch, x, gamma, y, inv);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_rms_norm_apply(clprune_context *context, clprune_mat x, clprune_mat inv,
    clprune_mat gamma, clprune_mat y, cl_event *event)
{
    ENTER(context);
    enum { X, INV, GAMMA, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols, .bf16 = true},
        {"inv", inv, x.rows, 1}, {"gamma", gamma, 1, x.cols, .optional = true},
        {"y", y, x.rows, x.cols, .in_place = 1u << X, .bf16 = true}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    clprune__rowwise plan = clprune__team_plan(context, x.rows, x.cols);
    clprune__define(&plan.defines, "AFFINE", !clprune__is_absent(gamma));
    clprune__narrow_define(context, x, y, &plan.defines);
    const clprune_mat mats[ALL] = {x, inv, gamma, y};
    return clprune__rowwise_run(context, &apply_kernel, &plan, ALL, mats, event);
}

/* Forward: y = gamma * x * inv, and inv depends on x. */
clprune_status clprune_rms_norm_backward(clprune_context *context, float beta, float dx_beta,
    clprune_mat x, clprune_mat inv, clprune_mat gamma, clprune_mat dy, clprune_mat dx,
    clprune_mat dgamma, cl_event *event)
{
    ENTER(context);
    SCRATCH_SCOPE(context);
    enum { X, INV, GAMMA, DY, DX, DGAMMA, ALL };
    const bool frozen = clprune__is_absent(dgamma), give_dx = !clprune__is_absent(dx);
    const bool read_dx = give_dx && dx_beta != 0.0f;
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols, .bf16 = true},
        {"inv", inv, x.rows, 1}, {"gamma", gamma, 1, x.cols, .optional = true},
        {"dy", dy, x.rows, x.cols},
        {"dx", dx, x.rows, x.cols, .optional = true, .in_place = read_dx ? 0u : 1u << DY},
        {"dgamma", dgamma, 1, x.cols, .optional = true}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    if (frozen && !give_dx)
        return clprune__empty_event(context, event);
    const size_t sums = frozen ? 0 : 1;
    clprune__rowwise plan = clprune__strips_plan(context, x.rows, x.cols, sums);
    clprune__define(&plan.defines, "AFFINE", !clprune__is_absent(gamma));
    clprune__define(&plan.defines, "GIVE_DX", give_dx);
    clprune__narrow_define(context, x, CLPRUNE_NO_MAT, &plan.defines);
    clprune_mat partial = clprune__untouched(dx);
    if (!frozen)
        TRY(clprune__scratch_mat(context, plan.groups, x.cols, &partial));
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &backward_kernel, &plan, &launch));
    clprune__arg_float(&launch, dx_beta);
    ARG_MATS(&launch, x, inv, gamma, dy, dx, partial);
    TRY(clprune__rowwise_end(&launch, &plan, frozen ? event : NULL));
    if (!frozen)
        TRY(clprune__column_sums_final(context, beta, plan.groups, partial, 1, &dgamma, event));
    return CLPRUNE_SUCCESS;
}
