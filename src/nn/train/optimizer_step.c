#include <math.h>

#include "nn/layers/sums.h"
#include "nn/train/optimizer_private.h"
#include "runtime/context/check.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def sgd_kernel = {"train/optimizer.cl", "sgd"};
static const clprune__kernel_def adamw_kernel = {"train/optimizer.cl", "adamw"};
static const clprune__kernel_def lamb_moments_kernel = {"train/optimizer.cl", "lamb_moments"};
static const clprune__kernel_def lamb_ratio_kernel = {"train/optimizer.cl", "lamb_ratio"};
static const clprune__kernel_def lamb_apply_kernel = {"train/optimizer.cl", "lamb_apply"};
static const clprune__kernel_def square_sum_kernel = {"train/optimizer_clip.cl", "square_sum"};
static const clprune__kernel_def clip_factor_kernel = {"train/optimizer_clip.cl", "clip_factor"};
static const clprune__kernel_def scale_kernel = {"train/optimizer_clip.cl", "scale"};

/* Begins a launch over the tensors of bundle b; the first arguments are its rows of the table. */
static clprune_status begin(const clprune_optimizer *optimizer, const clprune__kernel_def *def,
    const clprune__bundle *b, clprune__launch *launch)
{
    TRY(clprune__launch_begin(optimizer->context, def, &optimizer->plan.defines, launch));
    clprune__arg_mem(launch, optimizer->table);
    ARG_ULONGS(launch, b->first_row, b->rows);
    return CLPRUNE_SUCCESS;
}

/* Buffers of a bundle; the table has their offsets. */
static void arg_buffers(clprune__launch *launch, size_t count, const cl_mem *buffers)
{
    for (size_t i = 0; i < count; i++)
        clprune__arg_mem(launch, clprune__window_of(buffers[i]).whole);
}

static clprune_status enqueue(
    const clprune_optimizer *optimizer, const clprune__bundle *b, clprune__launch *launch)
{
    const size_t global = b->groups * optimizer->plan.local;
    return clprune__launch_enqueue(launch, 1, &global, &optimizer->plan.local, NULL);
}

/* The steps before this one, for the draws of codes; 0 in the first step only. */
static cl_uint draw_number(const clprune_optimizer *optimizer)
{
    const uint64_t steps = optimizer->steps;
    return steps == 0 ? 0 : (cl_uint)((steps - 1) % UINT32_MAX) + 1;
}

static clprune_status step_sgd(
    const clprune_optimizer *optimizer, const clprune__bundle *b, float lr)
{
    const clprune_optimizer_desc *desc = &optimizer->desc;
    clprune__launch launch;
    TRY(begin(optimizer, &sgd_kernel, b, &launch));
    ARG_FLOATS(&launch, lr, desc->momentum, desc->weight_decay);
    clprune__arg_uint(&launch, draw_number(optimizer));
    arg_buffers(&launch, 3, (cl_mem[]){b->grad, b->value, b->state[0]});
    return enqueue(optimizer, b, &launch);
}

/* The factors of a step's moments, rounded to fp32. */
typedef struct moments {
    float b1, b1_rest, b2, b2_rest; /* rest: 1 - b */
    float m_scale, v_scale;         /* 1 / (1 - b^t) */
} moments;

static moments moments_of(const clprune_optimizer *optimizer)
{
    const double t = (double)optimizer->steps + 1;
    const double b1 = (double)optimizer->desc.beta1, b2 = (double)optimizer->desc.beta2;
    return (moments){.b1 = optimizer->desc.beta1,
        .b1_rest = (float)(1 - b1),
        .b2 = optimizer->desc.beta2,
        .b2_rest = (float)(1 - b2),
        .m_scale = (float)(1 / (1 - pow(b1, t))),
        .v_scale = (float)(1 / (1 - pow(b2, t)))};
}

static void arg_moments(clprune__launch *launch, const moments *m)
{
    ARG_FLOATS(launch, m->b1, m->b1_rest, m->b2, m->b2_rest, m->m_scale, m->v_scale);
}

static clprune_status step_adamw(
    const clprune_optimizer *optimizer, const moments *m, const clprune__bundle *b, float lr)
{
    const clprune_optimizer_desc *desc = &optimizer->desc;
    clprune__launch launch;
    TRY(begin(optimizer, &adamw_kernel, b, &launch));
    ARG_FLOATS(&launch, lr, (float)((double)lr * (double)desc->weight_decay));
    arg_moments(&launch, m);
    clprune__arg_float(&launch, desc->eps);
    clprune__arg_uint(&launch, draw_number(optimizer));
    arg_buffers(&launch, 4, (cl_mem[]){b->grad, b->value, b->state[0], b->state[1]});
    return enqueue(optimizer, b, &launch);
}

static clprune_status lamb_moments(const clprune_optimizer *optimizer, const moments *m,
    const clprune__bundle *b, clprune_mat partial)
{
    clprune__launch launch;
    TRY(begin(optimizer, &lamb_moments_kernel, b, &launch));
    clprune__arg_float(&launch, optimizer->desc.weight_decay);
    arg_moments(&launch, m);
    clprune__arg_float(&launch, optimizer->desc.eps);
    arg_buffers(&launch, 4, (cl_mem[]){b->grad, b->value, b->state[0], b->state[1]});
    clprune__arg_mat(&launch, partial);
    return enqueue(optimizer, b, &launch);
}

static clprune_status lamb_apply(const clprune_optimizer *optimizer, const moments *m,
    const clprune__bundle *b, clprune_mat ratio, float lr)
{
    clprune__launch launch;
    TRY(begin(optimizer, &lamb_apply_kernel, b, &launch));
    ARG_FLOATS(
        &launch, lr, optimizer->desc.weight_decay, m->m_scale, m->v_scale, optimizer->desc.eps);
    clprune__arg_mat(&launch, ratio);
    arg_buffers(&launch, 3, (cl_mem[]){b->state[0], b->state[1], b->value});
    return enqueue(optimizer, b, &launch);
}

/* Three stages: moments and square sums of each group, the ratio of each tensor, the update. */
static clprune_status step_lamb(const clprune_optimizer *optimizer, const moments *m, float lr)
{
    clprune_context *context = optimizer->context;
    SCRATCH_SCOPE(context);
    const clprune__bundle all = {.rows = optimizer->rows};
    clprune_mat partial, ratio;
    clprune__launch launch;
    TRY(clprune__scratch_mat(context, optimizer->groups, 4, &partial));
    TRY(clprune__scratch_mat(context, 1, optimizer->rows, &ratio));
    for (size_t b = 0; b < optimizer->bundle_count; b++)
        if (optimizer->bundles[b].groups > 0)
            TRY(lamb_moments(optimizer, m, &optimizer->bundles[b], partial));
    TRY(begin(optimizer, &lamb_ratio_kernel, &all, &launch));
    ARG_MATS(&launch, partial, ratio);
    const size_t local = optimizer->plan.slices, global = optimizer->rows * local;
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, NULL));
    for (size_t b = 0; b < optimizer->bundle_count; b++)
        if (optimizer->bundles[b].groups > 0)
            TRY(lamb_apply(optimizer, m, &optimizer->bundles[b], ratio, lr));
    return CLPRUNE_SUCCESS;
}

static clprune_status step_bundle(
    const clprune_optimizer *optimizer, const moments *m, const clprune__bundle *b, float lr)
{
    return optimizer->desc.kind == CLPRUNE_OPTIMIZER_SGD ? step_sgd(optimizer, b, lr)
                                                         : step_adamw(optimizer, m, b, lr);
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
    const moments m = moments_of(optimizer);
    if (optimizer->desc.kind == CLPRUNE_OPTIMIZER_LAMB && optimizer->rows > 0)
        TRY(step_lamb(optimizer, &m, lr));
    else
        for (size_t b = 0; b < optimizer->bundle_count; b++)
            if (optimizer->bundles[b].groups > 0)
                TRY(step_bundle(optimizer, &m, &optimizer->bundles[b], lr));
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
    REQUIRE(optimizer->desc.kind != CLPRUNE_OPTIMIZER_LAMB, CLPRUNE_INVALID_ARGUMENT,
        "LAMB updates all parameters at once");
    const moments m = moments_of(optimizer);
    for (size_t b = 0; b < optimizer->bundle_count; b++) {
        if (optimizer->bundles[b].grad != grads)
            continue;
        found = true;
        if (optimizer->bundles[b].groups > 0)
            TRY(step_bundle(optimizer, &m, &optimizer->bundles[b], lr));
    }
    REQUIRE(found, CLPRUNE_INVALID_ARGUMENT, "no gradient of the optimizer lies in this buffer");
    return clprune__empty_event(context, event);
}

static clprune_status sum_squares(
    const clprune_optimizer *optimizer, const clprune__bundle *b, clprune_mat partial)
{
    clprune__launch launch;
    TRY(begin(optimizer, &square_sum_kernel, b, &launch));
    arg_buffers(&launch, 1, &b->grad);
    clprune__arg_mat(&launch, partial);
    return enqueue(optimizer, b, &launch);
}

static clprune_status scale_gradients(
    const clprune_optimizer *optimizer, const clprune__bundle *b, clprune_mat factor)
{
    clprune__launch launch;
    TRY(begin(optimizer, &scale_kernel, b, &launch));
    clprune__arg_mat(&launch, factor);
    arg_buffers(&launch, 1, &b->grad);
    return enqueue(optimizer, b, &launch);
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
