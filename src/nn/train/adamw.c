/* AdamW (arXiv 1711.05101). */
#include "nn/train/optimizer_private.h"
#include "runtime/context/check.h"

static const clprune__kernel_def adamw_kernel = {"train/adamw.cl", "adamw"};

static clprune_status step(const clprune_optimizer *optimizer, const clprune__bundle *b, float lr)
{
    const clprune_optimizer_desc *desc = &optimizer->desc;
    float m_scale, v_scale;
    clprune__launch launch;
    TRY(clprune__optimizer_begin(optimizer, &adamw_kernel, b, &launch));
    clprune__optimizer_corrections(optimizer, &m_scale, &v_scale);
    ARG_FLOATS(&launch, lr, (float)((double)lr * (double)desc->weight_decay));
    clprune__optimizer_betas(optimizer, &launch);
    ARG_FLOATS(&launch, m_scale, v_scale, desc->eps);
    clprune__optimizer_draws(optimizer, &launch);
    clprune__optimizer_buffers(
        optimizer, b, &launch, 4, (cl_mem[]){b->grad, b->value, b->state[0], b->state[1]});
    return clprune__optimizer_end(optimizer, b, &launch);
}

const clprune__optimizer_row clprune__optimizer_adamw = {
    .usual = {.name = "adamw",
        .slots = "mv",
        .desc = {.kind = CLPRUNE_OPTIMIZER_ADAMW,
            .beta1 = 0.9f,
            .beta2 = 0.999f,
            .eps = 1e-8f,
            .state_bits = 32},
        .lr = 0.002,
        .weight_decay = 0.05,
        .in_parts = true},
    .takes_codes = true,
    .step = step};
