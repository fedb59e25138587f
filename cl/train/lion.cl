/* Lion of parameters p by gradients g with state m; optimizer.clh has the table of tensors.
 *
 *     p = p - lr_wd * p;  p = p - lr * sign(b1 * m + b1_rest * g);  m = b2 * m + b2_rest * g;  b_rest = 1 - b
 *
 * with lr and wd times those of the tensor. With CODES it also takes tensors whose state is codes;
 * moment_codes.clh has them. Local memory: with CODES LOCAL floats. */
#include "train/moment_codes.clh"

/* 0 of 0, NaN of NaN: OpenCL's sign would hide it. */
static inline vec sign_of(const vec x)
{
    return x != x ? x : sign(x);
}

/* The new p; *m becomes the new m. */
static inline vec lion_move(const vec value, const vec g, vec *m, const float lr, const float decay,
    const float b1, const float b1_rest, const float b2, const float b2_rest)
{
    const vec direction = sign_of(fma((vec)(b1), *m, b1_rest * g));
    *m = fma((vec)(b2), *m, b2_rest * g);
    return fma((vec)(-lr), direction, fma((vec)(-decay), value, value));
}

KERNEL_OF(LOCAL) lion(TABLE, const float lr, const float lr_wd, const float b1, const float b1_rest,
    const float b2, const float b2_rest, const uint step, IN g, OUT p, OUT m)
{
    SHARE;
    const float rate = lr * t.lr, decay = lr_wd * t.lr * t.decay;
#if CODES
    local float part[LOCAL];
    EACH_BLOCK {
        vec mean[PARTS];
        ivec peak = 0;
        const float old = SCALE_AT(m);
        EACH_PART(k, {
            const vec value = load_flat(VALUES_OF(p));
            const vec grad = load_flat(GRADS_OF(g));
            mean[k] = first_moments(load_codes(CODES_AT(m), left), old);
            store_flat(lion_move(value, grad, &mean[k], rate, decay, b1, b1_rest, b2, b2_rest), VALUES_OF(p));
            peak = larger(peak, mean[k]);
        })
        const float scale = scale_of(part, peak);
        EACH_PART(k, {
            const vec u = lower_draw(moment_draws(i, step));
            store_codes(first_codes(mean[k], inverse_of(scale), u), CODES_AT(m), left);
        })
        if (get_local_id(0) == 0)
            SCALE_AT(m) = scale;
    }
#endif
    if (!IS_CODED(t))
        EACH_VECTOR {
            const vec value = load_part(VALUE_AT(p), left, 0), grad = load_part(GRAD_AT(g), left, 0);
            vec mean = load_part(STATE_AT(m), left, 0);
            store_part(lion_move(value, grad, &mean, rate, decay, b1, b1_rest, b2, b2_rest), VALUE_AT(p), left);
            store_part(mean, STATE_AT(m), left);
        }
}
