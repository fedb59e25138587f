/* An affine layer before a linear one, without storing the output of the affine. */
#include "clprune/affine.h"
#include "nn/layers/sums.h"
#include "nn/norm/scale_weights.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def affine_weights_kernel = {
    "norm/affine_product.cl", "affine_weights"};
static const clprune__kernel_def affine_centre_kernel = {"norm/affine_product.cl", "affine_centre"};
static const clprune__kernel_def affine_product_kernel = {
    "norm/affine_product.cl", "affine_product"};

clprune_status clprune_affine_weights(
    clprune_context *context, clprune_mat alpha, clprune_mat w, clprune_mat scaled, cl_event *event)
{
    ENTER(context);
    return clprune__scale_weights(
        context, &affine_weights_kernel, "alpha", alpha, w.cols, w, scaled, event);
}

clprune_status clprune_affine_centre(
    clprune_context *context, clprune_mat centre, clprune_mat x, cl_event *event)
{
    ENTER(context);
    const clprune__operand operands[2] = {{"centre", centre, 1, x.cols}, {"x", x, x.rows, x.cols}};
    TRY(clprune__check_operands(context, operands, 1, 2));
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    const clprune_mat mats[] = {centre, x};
    return clprune__rowwise_run(context, &affine_centre_kernel, &plan, 2, mats, event);
}

/* Forward: h = (alpha * x + beta) * w^T. */
clprune_status clprune_affine_backward_product(clprune_context *context, float old_sums,
    clprune_mat w, const clprune_affine *params, clprune_mat centre, clprune_mat sums,
    clprune_mat dw, const clprune_affine *grads, cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    REQUIRE(params != NULL, CLPRUNE_INVALID_ARGUMENT, "params is NULL");
    REQUIRE(grads != NULL, CLPRUNE_INVALID_ARGUMENT, "grads is NULL");
    enum { INPUTS = 5, ALL = 8 };
    const clprune__operand operands[ALL] = {{"w", w, w.rows, w.cols},
        {"alpha", params->alpha, 1, w.cols}, {"beta", params->beta, 1, w.cols},
        {"centre", centre, 1, w.cols}, {"sums", sums, 1, w.rows}, {"dw", dw, w.rows, w.cols},
        {"dalpha", grads->alpha, 1, w.cols}, {"dbeta", grads->beta, 1, w.cols}};
    TRY(clprune__check_operands(context, operands, INPUTS, ALL));
    const clprune__rowwise plan = clprune__sums_plan(context, w.rows, w.cols, 2, CLPRUNE__STRIP, 0);
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, 2 * plan.groups, w.cols, &partial));
    const clprune_mat mats[] = {w, params->alpha, params->beta, centre, sums, dw, partial},
                      made[2] = {grads->alpha, grads->beta};
    TRY(clprune__rowwise_run(context, &affine_product_kernel, &plan, 7, mats, NULL));
    return clprune__column_sums_final(context, old_sums, plan.groups, partial, 2, made, event);
}
