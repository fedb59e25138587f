/* What the launches of all kinds of optimizers have in common. */
#include <math.h>

#include "nn/train/optimizer_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/arena.h"

clprune_status clprune__optimizer_begin(const clprune_optimizer *optimizer,
    const clprune__kernel_def *def, const clprune__bundle *b, clprune__launch *launch)
{
    TRY(clprune__launch_begin(optimizer->context, def, &optimizer->plan.defines, launch));
    clprune__arg_mem(launch, optimizer->table);
    ARG_ULONGS(launch, b->first_row, b->rows);
    return CLPRUNE_SUCCESS;
}

/* Bytes of an element: gradients are read, values and state also written. */
static size_t bytes_of(const clprune_optimizer *optimizer, const clprune__bundle *b, cl_mem buffer)
{
    if (buffer == NULL)
        return 0;
    if (buffer == b->grad)
        return sizeof(float);
    const bool codes = buffer != b->value && optimizer->desc.state_bits == 8;
    return codes ? 2 : 2 * sizeof(float);
}

void clprune__optimizer_buffers(const clprune_optimizer *optimizer, const clprune__bundle *b,
    clprune__launch *launch, size_t count, const cl_mem *buffers)
{
    for (size_t i = 0; i < count; i++) {
        clprune__arg_mem(launch, clprune__window_of(buffers[i]).whole);
        launch->work.bytes += (double)b->elements * (double)bytes_of(optimizer, b, buffers[i]);
    }
}

void clprune__optimizer_draws(const clprune_optimizer *optimizer, clprune__launch *launch)
{
    const uint64_t steps = optimizer->steps;
    clprune__arg_uint(launch, steps == 0 ? 0 : (cl_uint)((steps - 1) % UINT32_MAX) + 1);
}

clprune_status clprune__optimizer_end(
    const clprune_optimizer *optimizer, const clprune__bundle *b, clprune__launch *launch)
{
    const size_t global = b->groups * optimizer->plan.local;
    return clprune__launch_enqueue(launch, 1, &global, &optimizer->plan.local, NULL);
}

void clprune__optimizer_corrections(
    const clprune_optimizer *optimizer, float *m_scale, float *v_scale)
{
    const double t = (double)optimizer->steps + 1;
    *m_scale = (float)(1 / (1 - pow((double)optimizer->desc.beta1, t)));
    *v_scale = (float)(1 / (1 - pow((double)optimizer->desc.beta2, t)));
}

void clprune__optimizer_betas(const clprune_optimizer *optimizer, clprune__launch *launch)
{
    const float b1 = optimizer->desc.beta1, b2 = optimizer->desc.beta2;
    ARG_FLOATS(launch, b1, (float)(1 - (double)b1), b2, (float)(1 - (double)b2));
}
