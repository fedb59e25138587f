#include <math.h>

#include "nn/layers/sums.h"
#include "nn/train/optimizer_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def square_sum_kernel = {"train/optimizer_clip.cl", "square_sum"};
static const clprune__kernel_def clip_factor_kernel = {"train/optimizer_clip.cl", "clip_factor"};
static const clprune__kernel_def scale_kernel = {"train/optimizer_clip.cl", "scale"};

/* A step of the tensors of bundle b, if it has elements. */
static clprune_status step_bundle(
    const clprune_optimizer *optimizer, const clprune__bundle *b, float lr)
{
    return b->groups > 0 ? optimizer->row->step(optimizer, b, lr) : CLPRUNE_SUCCESS;
}

static clprune_status check_step(
    clprune_context *context, const clprune_optimizer *optimizer, float lr)
{
    REQUIRE(optimizer != NULL, CLPRUNE_INVALID_ARGUMENT, "optimizer is NULL");
    REQUIRE(isfinite(lr) && lr >= 0, CLPRUNE_INVALID_ARGUMENT,
        "lr is %g, expected a finite value >= 0", (double)lr);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_optimizer_step(clprune_optimizer *optimizer, float lr, cl_event *event)
{
    ENTER(optimizer != NULL ? optimizer->context : NULL);
    clprune_context *context = optimizer != NULL ? optimizer->context : NULL;
    TRY(check_step(context, optimizer, lr));
    if (!optimizer->row->usual.in_parts && optimizer->rows > 0)
        TRY(optimizer->row->step(optimizer, NULL, lr));
    for (size_t b = 0; optimizer->row->usual.in_parts && b < optimizer->bundle_count; b++)
        TRY(step_bundle(optimizer, &optimizer->bundles[b], lr));
    optimizer->steps++;
    return clprune__empty_event(context, event);
}

clprune_status clprune_optimizer_update(
    clprune_optimizer *optimizer, cl_mem grads, float lr, cl_event *event)
{
    ENTER(optimizer != NULL ? optimizer->context : NULL);
    clprune_context *context = optimizer != NULL ? optimizer->context : NULL;
    bool found = false;
    TRY(check_step(context, optimizer, lr));
    REQUIRE(optimizer->row->usual.in_parts, CLPRUNE_INVALID_ARGUMENT,
        "%s updates all parameters at once", optimizer->row->usual.name);
    for (size_t b = 0; b < optimizer->bundle_count; b++) {
        if (optimizer->bundles[b].grad != grads)
            continue;
        found = true;
        TRY(step_bundle(optimizer, &optimizer->bundles[b], lr));
    }
    REQUIRE(found, CLPRUNE_INVALID_ARGUMENT, "no gradient of the optimizer lies in this buffer");
    return clprune__empty_event(context, event);
}

static clprune_status sum_squares(
    const clprune_optimizer *optimizer, const clprune__bundle *b, clprune_mat partial)
{
    clprune__launch launch;
    TRY(clprune__optimizer_begin(optimizer, &square_sum_kernel, b, &launch));
    clprune__optimizer_buffers(optimizer, b, &launch, 1, &b->grad);
    clprune__arg_mat(&launch, partial);
    return clprune__optimizer_end(optimizer, b, &launch);
}

static clprune_status scale_gradients(
    const clprune_optimizer *optimizer, const clprune__bundle *b, clprune_mat factor)
{
    clprune__launch launch;
    TRY(clprune__optimizer_begin(optimizer, &scale_kernel, b, &launch));
    clprune__arg_mat(&launch, factor);
    clprune__optimizer_buffers(optimizer, b, &launch, 1, &b->grad);
    return clprune__optimizer_end(optimizer, b, &launch);
}

/* The norm and the factor from the square sums of all groups. */
static clprune_status clip_factor(const clprune_optimizer *optimizer, float max_norm,
    clprune_mat sums, clprune_mat norm, clprune_mat factor)
{
    const size_t local = optimizer->plan.local;
    clprune__launch launch;
    TRY(clprune__launch_begin(
        optimizer->context, &clip_factor_kernel, &optimizer->plan.defines, &launch));
    clprune__arg_float(&launch, max_norm);
    ARG_MATS(&launch, sums, norm, factor);
    return clprune__launch_enqueue(&launch, 1, &local, &local, NULL);
}

clprune_status clprune_optimizer_clip(
    clprune_optimizer *optimizer, float max_norm, clprune_mat norm, cl_event *event)
{
    ENTER(optimizer != NULL ? optimizer->context : NULL);
    clprune_context *context = optimizer != NULL ? optimizer->context : NULL;
    SCRATCH_SCOPE(context);
    REQUIRE(optimizer != NULL, CLPRUNE_INVALID_ARGUMENT, "optimizer is NULL");
    REQUIRE(max_norm > 0, CLPRUNE_INVALID_ARGUMENT, "max_norm is %g, expected a value > 0",
        (double)max_norm);
    const bool has_norm = !clprune__is_absent(norm);
    if (has_norm)
        TRY(clprune__check_mat(context, "norm", norm, 1, 1));
    for (size_t i = 0; has_norm && i < optimizer->count; i++) {
        const clprune_param *param = &optimizer->tensors[i].param;
        TRY(clprune__check_apart(context, "norm", norm, "a gradient", param->grad));
        TRY(clprune__check_apart(context, "norm", norm, "a value", param->value));
    }
    clprune_mat partial, sums, factor;
    TRY(clprune__scratch_mat(context, optimizer->groups, 2, &partial));
    TRY(clprune__scratch_mat(context, 1, 2, &sums));
    TRY(clprune__scratch_mat(context, 1, 1, &factor));
    if (!has_norm)
        TRY(clprune__scratch_mat(context, 1, 1, &norm));
    for (size_t b = 0; b < optimizer->bundle_count; b++)
        if (optimizer->bundles[b].groups > 0)
            TRY(sum_squares(optimizer, &optimizer->bundles[b], partial));
    TRY(clprune__column_sums_final(context, 0.0f, optimizer->groups, partial, 1, &sums, NULL));
    TRY(clip_factor(optimizer, max_norm, sums, norm, factor));
    for (size_t b = 0; b < optimizer->bundle_count; b++)
        if (optimizer->bundles[b].groups > 0)
            TRY(scale_gradients(optimizer, &optimizer->bundles[b], factor));
    return clprune__empty_event(context, event);
}
