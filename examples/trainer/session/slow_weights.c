#include "trainer/session/slow_weights.h"

#include <math.h>
#include <stdlib.h>

#include "trainer/base/try.h"

clprune_status slow_weights_open(clprune_context *context, net_model *model, slow_weights *s)
{
    const size_t statistics = model->statistics_count;
    size_t params, most = 1;
    const clprune_param *param = clprune_net_params(model->net, &params);
    *s = (slow_weights){
        .context = context, .tensors = calloc(params + statistics + 1, sizeof *s->tensors)};
    if (s->tensors == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < params + statistics; ++i) {
        slow_tensor *t = &s->tensors[s->count++];
        t->fast = i < params ? param[i].value : model->states[i - params].mat;
        t->name = i < params ? param[i].name : model->states[i - params].name;
        TRY(clprune_mat_create(
            context, CLPRUNE_MEMORY_OPTIMIZER, "slow", t->fast.rows, t->fast.cols, &t->slow));
        const size_t count = t->fast.rows * t->fast.cols;
        most = count > most ? count : most;
    }
    return clprune_buffer_create(context, CLPRUNE_MEMORY_OPTIMIZER, "room for a slow weight",
        most * sizeof(float), &s->room);
}

void slow_weights_close(slow_weights *s)
{
    for (size_t i = 0; i < s->count; ++i)
        clprune_buffer_release(s->context, s->tensors[i].slow.buffer);
    if (s->room != NULL)
        clprune_buffer_release(s->context, s->room);
    free(s->tensors);
    *s = (slow_weights){0};
}

clprune_status slow_weights_begin(const slow_weights *s)
{
    for (size_t i = 0; i < s->count; ++i)
        TRY(clprune_mat_copy(s->context, s->tensors[i].fast, s->tensors[i].slow, NULL));
    return CLPRUNE_SUCCESS;
}

clprune_status slow_weights_lookahead(
    const slow_weights *s, double decay, uint64_t step, uint64_t steps)
{
    const double part = step < steps ? (double)step / (double)steps : 1;
    const float a = (float)(pow(decay, LOOKAHEAD_STEPS) * part * part * part);
    const bool moves = step % LOOKAHEAD_STEPS == 0;
    for (size_t i = 0; (moves || step >= steps) && i < s->count; ++i) {
        const slow_tensor *t = &s->tensors[i];
        if (moves)
            TRY(clprune_add(s->context, a, t->slow, 1 - a, t->fast, t->slow, NULL));
        TRY(clprune_mat_copy(s->context, t->slow, t->fast, NULL));
    }
    return CLPRUNE_SUCCESS;
}

clprune_status slow_weights_ema(const slow_weights *s, double decay, uint64_t step)
{
    const float a = (float)fmin(decay, (1 + (double)step) / (10 + (double)step));
    for (size_t i = 0; i < s->count; ++i) {
        const slow_tensor *t = &s->tensors[i];
        TRY(clprune_add(s->context, a, t->slow, 1 - a, t->fast, t->slow, NULL));
    }
    return CLPRUNE_SUCCESS;
}

clprune_status slow_weights_swap(const slow_weights *s)
{
    for (size_t i = 0; i < s->count; ++i) {
        const slow_tensor *t = &s->tensors[i];
        const clprune_mat room = clprune_mat_of(s->room, t->fast.rows, t->fast.cols);
        TRY(clprune_mat_copy(s->context, t->fast, room, NULL));
        TRY(clprune_mat_copy(s->context, t->slow, t->fast, NULL));
        TRY(clprune_mat_copy(s->context, room, t->slow, NULL));
    }
    return CLPRUNE_SUCCESS;
}
