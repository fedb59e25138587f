/* LAMB (arXiv 1904.00962): a step takes all tensors, because each one's rate needs its norms. */
#include "nn/train/optimizer_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def lamb_moments_kernel = {"train/lamb.cl", "lamb_moments"};
static const clprune__kernel_def lamb_ratio_kernel = {"train/lamb.cl", "lamb_ratio"};
static const clprune__kernel_def lamb_apply_kernel = {"train/lamb.cl", "lamb_apply"};

static clprune_status moments(
    const clprune_optimizer *optimizer, const clprune__bundle *b, clprune_mat partial)
{
    float m_scale, v_scale;
    clprune__launch launch;
    TRY(clprune__optimizer_begin(optimizer, &lamb_moments_kernel, b, &launch));
    clprune__optimizer_corrections(optimizer, &m_scale, &v_scale);
    clprune__arg_float(&launch, optimizer->desc.weight_decay);
    clprune__optimizer_betas(optimizer, &launch);
    ARG_FLOATS(&launch, m_scale, v_scale, optimizer->desc.eps);
    clprune__optimizer_buffers(
        optimizer, b, &launch, 4, (cl_mem[]){b->grad, b->value, b->state[0], b->state[1]});
    clprune__arg_mat(&launch, partial);
    return clprune__optimizer_end(optimizer, b, &launch);
}

static clprune_status apply(
    const clprune_optimizer *optimizer, const clprune__bundle *b, clprune_mat ratio, float lr)
{
    float m_scale, v_scale;
    clprune__launch launch;
    TRY(clprune__optimizer_begin(optimizer, &lamb_apply_kernel, b, &launch));
    clprune__optimizer_corrections(optimizer, &m_scale, &v_scale);
    ARG_FLOATS(&launch, lr, optimizer->desc.weight_decay, m_scale, v_scale, optimizer->desc.eps);
    clprune__arg_mat(&launch, ratio);
    clprune__optimizer_buffers(
        optimizer, b, &launch, 3, (cl_mem[]){b->state[0], b->state[1], b->value});
    return clprune__optimizer_end(optimizer, b, &launch);
}

/* Three stages: moments and square sums of each group, the ratio of each tensor, the update. */
static clprune_status step(const clprune_optimizer *optimizer, const clprune__bundle *b, float lr)
{
    clprune_context *context = optimizer->context;
    SCRATCH_SCOPE(context);
    const clprune__bundle all = {.rows = optimizer->rows};
    clprune_mat partial, ratio;
    clprune__launch launch;
    (void)b;
    TRY(clprune__scratch_mat(context, optimizer->groups, 4, &partial));
    TRY(clprune__scratch_mat(context, 1, optimizer->rows, &ratio));
    for (size_t i = 0; i < optimizer->bundle_count; i++)
        if (optimizer->bundles[i].groups > 0)
            TRY(moments(optimizer, &optimizer->bundles[i], partial));
    TRY(clprune__optimizer_begin(optimizer, &lamb_ratio_kernel, &all, &launch));
    ARG_MATS(&launch, partial, ratio);
    const size_t local = optimizer->plan.slices, global = optimizer->rows * local;
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, NULL));
    for (size_t i = 0; i < optimizer->bundle_count; i++)
        if (optimizer->bundles[i].groups > 0)
            TRY(apply(optimizer, &optimizer->bundles[i], ratio, lr));
    return CLPRUNE_SUCCESS;
}

const clprune__optimizer_row clprune__optimizer_lamb = {
    .usual = {.name = "lamb",
        .slots = "mv",
        .desc = {.kind = CLPRUNE_OPTIMIZER_LAMB,
            .beta1 = 0.9f,
            .beta2 = 0.999f,
            .eps = 1e-6f,
            .state_bits = 32},
        .lr = 0.005, /* as arXiv 2105.03404, with its weight decay */
        .weight_decay = 0.2},
    .step = step};
