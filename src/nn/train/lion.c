/* Lion (arXiv 2302.06675). */
#include "nn/train/optimizer_private.h"
#include "runtime/context/check.h"

static const clprune__kernel_def lion_kernel = {"train/lion.cl", "lion"};

static clprune_status step(const clprune_optimizer *optimizer, const clprune__bundle *b, float lr)
{
    clprune__launch launch;
    TRY(clprune__optimizer_begin(optimizer, &lion_kernel, b, &launch));
    ARG_FLOATS(&launch, lr, (float)((double)lr * (double)optimizer->desc.weight_decay));
    clprune__optimizer_betas(optimizer, &launch);
    clprune__optimizer_draws(optimizer, &launch);
    clprune__optimizer_buffers(
        optimizer, b, &launch, 3, (cl_mem[]){b->grad, b->value, b->state[0]});
    return clprune__optimizer_end(optimizer, b, &launch);
}

const clprune__optimizer_row clprune__optimizer_lion = {
    .usual = {.name = "lion",
        .slots = "m",
        .desc = {.kind = CLPRUNE_OPTIMIZER_LION, .beta1 = 0.9f, .beta2 = 0.99f, .state_bits = 32},
        .lr = 0.0002, /* a tenth of AdamW's, with ten times its weight decay, as the paper has it */
        .weight_decay = 0.5,
        .in_parts = true},
    .takes_codes = true,
    .step = step};
