/* The affine in front of a linear layer, without its output. */
#include "clprune/affine.h"
#include "nn/column_sum.h"
#include "nn/scale_weights.h"
#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/scratch.h"

static const clprune__kernel_def affine_weights_kernel = {
    "affine_product.cl", "affine_weights", "nn.clh"};
static const clprune__kernel_def affine_center_kernel = {
    "affine_product.cl", "affine_center", "nn.clh"};
static const clprune__kernel_def affine_product_kernel = {
    "affine_product.cl", "affine_product", "nn.clh"};

clprune_status clprune_affine_weights(
    clprune_context *context, clprune_mat alpha, clprune_mat w, clprune_mat scaled, cl_event *event)
{
    return clprune__scale_weights(
        context, &affine_weights_kernel, "alpha", alpha, w.cols, w, scaled, event);
}

clprune_status clprune_affine_center(
    clprune_context *context, clprune_mat center, clprune_mat x, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "center", center, 1, x.cols));
    TRY(clprune__check_mat(context, "x", x, x.rows, x.cols));
    TRY(clprune__check_apart(context, "x", x, "center", center));
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &affine_center_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, x.rows);
    clprune__arg_ulong(&launch, x.cols);
    clprune__arg_mat(&launch, center);
    clprune__arg_mat(&launch, x);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

clprune_status clprune_affine_backward_product(clprune_context *context, clprune_mat w,
    clprune_mat alpha, clprune_mat beta, clprune_mat center, clprune_mat sums, clprune_mat dw,
    clprune_mat dalpha, clprune_mat dbeta, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    enum { INPUTS = 5, ALL = 8 };
    const clprune__operand operands[ALL] = {{"w", w, w.rows, w.cols}, {"alpha", alpha, 1, w.cols},
        {"beta", beta, 1, w.cols}, {"center", center, 1, w.cols}, {"sums", sums, 1, w.rows},
        {"dw", dw, w.rows, w.cols}, {"dalpha", dalpha, 1, w.cols}, {"dbeta", dbeta, 1, w.cols}};
    TRY(clprune__check_operands(context, operands, INPUTS, ALL));
    const clprune__rowwise plan = clprune__reduction_plan(context, w.rows, w.cols);
    /* Row 2 g: dalpha of group g; row 2 g + 1: dbeta. */
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, 2 * plan.groups, w.cols, &partial));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &affine_product_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, w.rows);
    clprune__arg_ulong(&launch, w.cols);
    clprune__arg_mat(&launch, w);
    clprune__arg_mat(&launch, alpha);
    clprune__arg_mat(&launch, beta);
    clprune__arg_mat(&launch, center);
    clprune__arg_mat(&launch, sums);
    clprune__arg_mat(&launch, dw);
    clprune__arg_mat(&launch, partial);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
    const clprune_mat vectors[2] = {dalpha, dbeta};
    TRY(clprune__column_sums_final(context, false, plan.groups, partial, 2, vectors, event));
done:
    if (context != NULL)
        clprune__scratch_end(context, mark);
    return status;
}
