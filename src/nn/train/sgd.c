/* SGD with momentum, as PyTorch's. */
#include "nn/train/optimizer_private.h"
#include "runtime/context/check.h"

static const clprune__kernel_def sgd_kernel = {"train/sgd.cl", "sgd"};

static clprune_status step(const clprune_optimizer *optimizer, const clprune__bundle *b, float lr)
{
    const clprune_optimizer_desc *desc = &optimizer->desc;
    clprune__launch launch;
    TRY(clprune__optimizer_begin(optimizer, &sgd_kernel, b, &launch));
    ARG_FLOATS(&launch, lr, desc->momentum, desc->weight_decay);
    clprune__optimizer_draws(optimizer, &launch);
    clprune__optimizer_buffers(
        optimizer, b, &launch, 3, (cl_mem[]){b->grad, b->value, b->state[0]});
    return clprune__optimizer_end(optimizer, b, &launch);
}

const clprune__optimizer_row clprune__optimizer_sgd = {
    .usual = {.name = "sgd",
        .slots = "v",
        .desc = {.kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 0.9f, .state_bits = 32},
        .lr = 0.05,
        .weight_decay = 0.0005,
        .in_parts = true},
    .takes_codes = true,
    .step = step};
