/* SGD of parameters p by gradients g with state v; optimizer.clh has the table of tensors.
 *
 *     g' = g + wd * p;  v = momentum * v + g', or g' in step 0;  p = p - lr * v
 *     with NESTEROV                                              p = p - lr * (g' + momentum * v)
 *     without MOMENTUM there is no v: p = p - lr * g'
 *
 * with lr and wd times those of the tensor. With CODES it also takes tensors whose state is codes;
 * moment_codes.clh has them. Local memory: with CODES LOCAL floats. */
#include "train/moment_codes.clh"
#ifndef MOMENTUM
#error "sgd.cl needs MOMENTUM, 0 or 1"
#endif
#ifndef NESTEROV
#define NESTEROV 0
#endif
/* What p moves along, of g' and v. */
#define DIRECTION(g, v) (NESTEROV ? fma((vec)(momentum), v, g) : (v))

KERNEL_OF(LOCAL) sgd(TABLE, const float lr, const float momentum, const float wd, const uint step,
    IN g, OUT p, OUT v)
{
    SHARE;
    const float rate = lr * t.lr, decay = wd * t.decay;
#if CODES && MOMENTUM
    local float part[LOCAL];
    EACH_BLOCK {
        vec moves[PARTS];
        ivec peak = 0;
        const float old = SCALE_AT(v);
        EACH_PART(k, {
            const vec value = load_flat(VALUES_OF(p));
            const vec grad = fma((vec)(decay), value, load_flat(GRADS_OF(g)));
            vec move = grad;
            if (step > 0)
                move = fma((vec)(momentum), first_moments(load_codes(CODES_AT(v), left), old), move);
            moves[k] = move;
            peak = larger(peak, move);
            store_flat(fma((vec)(-rate), DIRECTION(grad, move), value), VALUES_OF(p));
        })
        const float scale = scale_of(part, peak);
        EACH_PART(k, {
            const vec u = lower_draw(moment_draws(i, step));
            store_codes(first_codes(moves[k], inverse_of(scale), u), CODES_AT(v), left);
        })
        if (get_local_id(0) == 0)
            SCALE_AT(v) = scale;
    }
#endif
    if (!IS_CODED(t))
        EACH_VECTOR {
            const vec value = load_part(VALUE_AT(p), left, 0);
            const vec grad = fma((vec)(decay), value, load_part(GRAD_AT(g), left, 0));
            vec move = grad;
#if MOMENTUM
            if (step > 0)
                move = fma((vec)(momentum), load_part(STATE_AT(v), left, 0), move);
            store_part(move, STATE_AT(v), left);
#endif
            store_part(fma((vec)(-rate), DIRECTION(grad, move), value), VALUE_AT(p), left);
        }
}
