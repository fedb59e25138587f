#include "clprune/layer_norm.h"

#include "nn/layers/sums.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def forward_kernel = {"norm/layer_norm.cl", "layer_norm_forward"};
static const clprune__kernel_def apply_kernel = {"norm/layer_norm.cl", "layer_norm_apply"};
static const clprune__kernel_def backward_kernel = {
    "norm/layer_norm_backward.cl", "layer_norm_backward"};

enum { STATS = 2 }; /* columns */

clprune_status clprune_layer_norm_forward(clprune_context *context, float eps, clprune_mat x,
    clprune_mat gamma, clprune_mat beta, clprune_mat y, clprune_mat stats, cl_event *event)
{
    ENTER(context);
    REQUIRE(eps > 0.0f, CLPRUNE_INVALID_ARGUMENT, "eps is %g, expected above 0", (double)eps);
    enum { X, GAMMA, BETA, Y, KEPT, ALL };
    const bool no_gamma = clprune__is_absent(gamma), no_beta = clprune__is_absent(beta);
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols, .bf16 = true},
        {"gamma", gamma, 1, x.cols, .optional = no_beta},
        {"beta", beta, 1, x.cols, .optional = no_gamma},
        {"y", y, x.rows, x.cols, .in_place = 1u << X, .bf16 = true},
        {"stats", stats, x.rows, STATS, .optional = true}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    clprune__rowwise plan = clprune__team_plan(context, x.rows, x.cols);
    clprune__define(&plan.defines, "AFFINE", !no_gamma);
    clprune__define(&plan.defines, "KEEP", !clprune__is_absent(stats));
    clprune__narrow_define(context, x, y, &plan.defines);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &forward_kernel, &plan, &launch));
    clprune__arg_float(&launch, eps);
    ARG_MATS(&launch, x, gamma, beta, y, stats);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_layer_norm_apply(clprune_context *context, clprune_mat x, clprune_mat stats,
    clprune_mat gamma, clprune_mat beta, clprune_mat y, cl_event *event)
{
    ENTER(context);
    enum { X, KEPT, GAMMA, BETA, Y, ALL };
    const bool no_gamma = clprune__is_absent(gamma), no_beta = clprune__is_absent(beta);
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols, .bf16 = true},
        {"stats", stats, x.rows, STATS}, {"gamma", gamma, 1, x.cols, .optional = no_beta},
        {"beta", beta, 1, x.cols, .optional = no_gamma},
        {"y", y, x.rows, x.cols, .in_place = 1u << X, .bf16 = true}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    clprune__rowwise plan = clprune__team_plan(context, x.rows, x.cols);
    clprune__define(&plan.defines, "AFFINE", !no_gamma);
    clprune__narrow_define(context, x, y, &plan.defines);
    const clprune_mat mats[ALL] = {x, stats, gamma, beta, y};
    return clprune__rowwise_run(context, &apply_kernel, &plan, ALL, mats, event);
}

/* Forward: y = gamma * xhat + beta, xhat = (x - mean) * inv, and mean and inv depend on x. */
clprune_status clprune_layer_norm_backward(clprune_context *context, float beta, float dx_beta,
    clprune_mat x, clprune_mat stats, clprune_mat gamma, clprune_mat dy, clprune_mat dx,
    const clprune_layer_norm *grads, cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    enum { X, KEPT, GAMMA, DY, DX, DGAMMA, DBETA, ALL };
    const bool frozen = grads == NULL, give_dx = !clprune__is_absent(dx);
    const bool read_dx = give_dx && dx_beta != 0.0f;
    const clprune_mat made[2] = {
        frozen ? CLPRUNE_NO_MAT : grads->gamma, frozen ? CLPRUNE_NO_MAT : grads->beta};
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols, .bf16 = true},
        {"stats", stats, x.rows, STATS}, {"gamma", gamma, 1, x.cols, .optional = frozen},
        {"dy", dy, x.rows, x.cols},
        {"dx", dx, x.rows, x.cols, .optional = true, .in_place = read_dx ? 0u : 1u << DY},
        {"dgamma", made[0], 1, x.cols}, {"dbeta", made[1], 1, x.cols}};
    TRY(clprune__check_operands(context, operands, DX, frozen ? DGAMMA : ALL));
    if (frozen && !give_dx)
        return clprune__empty_event(context, event);
    const size_t sums = frozen ? 0 : 2;
    clprune__rowwise plan = clprune__strips_plan(context, x.rows, x.cols, sums);
    clprune__define(&plan.defines, "AFFINE", !clprune__is_absent(gamma));
    clprune__define(&plan.defines, "GIVE_DX", give_dx);
    clprune__narrow_define(context, x, CLPRUNE_NO_MAT, &plan.defines);
    clprune_mat partial = clprune__untouched(dx);
    if (!frozen)
        TRY(clprune__scratch_mat(context, sums * plan.groups, x.cols, &partial));
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &backward_kernel, &plan, &launch));
    clprune__arg_float(&launch, dx_beta);
    ARG_MATS(&launch, x, stats, gamma, dy, dx, partial);
    TRY(clprune__rowwise_end(&launch, &plan, frozen ? event : NULL));
    if (!frozen)
        TRY(clprune__column_sums_final(context, beta, plan.groups, partial, sums, made, event));
    return CLPRUNE_SUCCESS;
}
