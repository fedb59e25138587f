#include "trainer/session/lookahead.h"

#include <math.h>
#include <stdlib.h>

#include "trainer/base/try.h"

/* Of the states, those that passes change come first, a mean and a variance for each count. */
clprune_status lookahead_open(
    clprune_context *context, const trainer_model *type, void *model, lookahead *l)
{
    size_t params, states, counts;
    const clprune_param *param = type->params(model, &params);
    const trainer_state *state = trainer_states(type, model, &states);
    (void)trainer_counts(type, model, &counts);
    const size_t statistics = 2 * counts < states ? 2 * counts : states;
    *l = (lookahead){
        .context = context, .tensors = calloc(params + statistics + 1, sizeof *l->tensors)};
    if (l->tensors == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < params + statistics; ++i) {
        lookahead_tensor *t = &l->tensors[l->count++];
        t->fast = i < params ? param[i].value : state[i - params].mat;
        t->name = i < params ? param[i].name : state[i - params].name;
        TRY(clprune_mat_create(
            context, CLPRUNE_MEMORY_OPTIMIZER, "slow", t->fast.rows, t->fast.cols, &t->slow));
    }
    return CLPRUNE_SUCCESS;
}

void lookahead_close(lookahead *l)
{
    for (size_t i = 0; i < l->count; ++i)
        clprune_buffer_release(l->context, l->tensors[i].slow.buffer);
    free(l->tensors);
    *l = (lookahead){0};
}

clprune_status lookahead_begin(const lookahead *l)
{
    for (size_t i = 0; i < l->count; ++i)
        TRY(clprune_mat_copy(l->context, l->tensors[i].fast, l->tensors[i].slow, NULL));
    return CLPRUNE_SUCCESS;
}

clprune_status lookahead_step(const lookahead *l, double decay, uint64_t step, uint64_t steps)
{
    const double part = step < steps ? (double)step / (double)steps : 1;
    const float a = (float)(pow(decay, LOOKAHEAD_STEPS) * part * part * part);
    const bool moves = step % LOOKAHEAD_STEPS == 0;
    for (size_t i = 0; (moves || step >= steps) && i < l->count; ++i) {
        const lookahead_tensor *t = &l->tensors[i];
        if (moves)
            TRY(clprune_add(l->context, a, t->slow, 1 - a, t->fast, t->slow, NULL));
        TRY(clprune_mat_copy(l->context, t->slow, t->fast, NULL));
    }
    return CLPRUNE_SUCCESS;
}
