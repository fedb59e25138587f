#include "clprune/group_norm.h"

#include "nn/layers/sums.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def forward_kernel = {"norm/group_norm.cl", "group_norm_forward"};
static const clprune__kernel_def apply_kernel = {"norm/group_norm.cl", "group_norm_apply"};
static const clprune__kernel_def backward_kernel = {"norm/group_norm.cl", "group_norm_backward"};

enum { SUMS = 2 }; /* of a column of a slice */

static clprune_status check_sizes(
    clprune_context *context, size_t batch, size_t groups, clprune_mat x)
{
    REQUIRE(groups > 0 && x.cols % groups == 0, CLPRUNE_INVALID_SIZE,
        "x has %zu columns, expected a multiple of groups, %zu", x.cols, groups);
    return clprune__check_batch(context, batch, x);
}

/* A work-group for each sample; *slices: of its rows. */
static clprune__rowwise plan_samples(
    const clprune_context *context, size_t batch, clprune_mat x, bool affine, size_t *slices)
{
    clprune__rowwise plan =
        clprune__lanes_plan(context, x.rows, x.cols, SUMS, clprune__vector_width(context));
    plan.groups = batch;
    plan.group_rows = batch > 0 ? x.rows / batch : 0;
    plan.global = x.rows > 0 && x.cols > 0 ? batch * plan.local : 0;
    clprune__define(&plan.defines, "AFFINE", affine);
    *slices = plan.local / plan.lanes;
    return plan;
}

clprune_status clprune_group_norm_forward(clprune_context *context, size_t batch, size_t groups,
    float eps, clprune_mat x, clprune_mat gamma, clprune_mat beta, clprune_mat y, clprune_mat stats,
    cl_event *event)
{
    ENTER(context);
    SCRATCH_SCOPE(context);
    REQUIRE(eps > 0.0f, CLPRUNE_INVALID_ARGUMENT, "eps is %g, expected above 0", (double)eps);
    TRY(check_sizes(context, batch, groups, x));
    enum { X, GAMMA, BETA, Y, KEPT, ALL };
    const bool no_gamma = clprune__is_absent(gamma), no_beta = clprune__is_absent(beta);
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols},
        {"gamma", gamma, 1, x.cols, .optional = no_beta},
        {"beta", beta, 1, x.cols, .optional = no_gamma},
        {"y", y, x.rows, x.cols, .in_place = 1u << X},
        {"stats", stats, batch, 2 * groups, .optional = true}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    if (clprune__is_absent(stats))
        TRY(clprune__scratch_mat(context, batch, 2 * groups, &stats));
    size_t slices;
    const clprune__rowwise plan = plan_samples(context, batch, x, !no_gamma, &slices);
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, SUMS * slices * batch, x.cols, &partial));
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &forward_kernel, &plan, &launch));
    launch.least_group = 0; /* `partial` has rows for all slices */
    ARG_ULONGS(&launch, x.cols / groups);
    clprune__arg_float(&launch, eps);
    ARG_MATS(&launch, x, gamma, beta, y, stats, partial);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_group_norm_apply(clprune_context *context, size_t batch, size_t groups,
    clprune_mat x, clprune_mat stats, clprune_mat gamma, clprune_mat beta, clprune_mat y,
    cl_event *event)
{
    ENTER(context);
    TRY(check_sizes(context, batch, groups, x));
    enum { X, KEPT, GAMMA, BETA, Y, ALL };
    const bool no_gamma = clprune__is_absent(gamma), no_beta = clprune__is_absent(beta);
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols},
        {"stats", stats, batch, 2 * groups}, {"gamma", gamma, 1, x.cols, .optional = no_beta},
        {"beta", beta, 1, x.cols, .optional = no_gamma},
        {"y", y, x.rows, x.cols, .in_place = 1u << X}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    size_t slices;
    const clprune__rowwise plan = plan_samples(context, batch, x, !no_gamma, &slices);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &apply_kernel, &plan, &launch));
    ARG_ULONGS(&launch, x.cols / groups);
    ARG_MATS(&launch, x, stats, gamma, beta, y);
    return clprune__rowwise_end(&launch, &plan, event);
}

/* Forward: y = gamma * xhat + beta, xhat = (x - mean) * inv, and mean and inv depend on x. */
clprune_status clprune_group_norm_backward(clprune_context *context, size_t batch, size_t groups,
    float beta, float dx_beta, clprune_mat x, clprune_mat stats, clprune_mat gamma, clprune_mat dy,
    clprune_mat dx, const clprune_group_norm *grads, cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    TRY(check_sizes(context, batch, groups, x));
    enum { X, KEPT, GAMMA, DY, DX, DGAMMA, DBETA, ALL };
    const bool frozen = grads == NULL, give_dx = !clprune__is_absent(dx);
    const bool read_dx = give_dx && dx_beta != 0.0f;
    const clprune_mat made[SUMS] = {
        frozen ? CLPRUNE_NO_MAT : grads->gamma, frozen ? CLPRUNE_NO_MAT : grads->beta};
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols},
        {"stats", stats, batch, 2 * groups}, {"gamma", gamma, 1, x.cols, .optional = frozen},
        {"dy", dy, x.rows, x.cols},
        {"dx", dx, x.rows, x.cols, .optional = true, .in_place = read_dx ? 0u : 1u << DY},
        {"dgamma", made[0], 1, x.cols}, {"dbeta", made[1], 1, x.cols}};
    TRY(clprune__check_operands(context, operands, DX, frozen ? DGAMMA : ALL));
    if (frozen && !give_dx)
        return clprune__empty_event(context, event);
    size_t slices;
    clprune__rowwise plan = plan_samples(context, batch, x, !clprune__is_absent(gamma), &slices);
    clprune__define(&plan.defines, "GIVE_DX", give_dx);
    clprune_mat partial, means;
    TRY(clprune__scratch_mat(context, SUMS * slices * batch, x.cols, &partial));
    TRY(clprune__scratch_mat(context, batch, 2 * groups, &means));
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &backward_kernel, &plan, &launch));
    launch.least_group = 0; /* `partial` has rows for all slices */
    ARG_ULONGS(&launch, x.cols / groups);
    clprune__arg_float(&launch, dx_beta);
    ARG_MATS(&launch, x, stats, gamma, dy, dx, means, partial);
    TRY(clprune__rowwise_end(&launch, &plan, frozen ? event : NULL));
    const size_t rows = x.rows > 0 ? slices * batch : 0;
    if (!frozen)
        TRY(clprune__column_sums_final(context, beta, rows, partial, SUMS, made, event));
    return CLPRUNE_SUCCESS;
}
