/* AdamW of parameters p by gradients g with state m and v, which adam.clh has; optimizer.clh has the table of
 * tensors.
 *
 *     p = p - lr_wd * p;  p = p - lr * m^ / (sqrt(v^) + eps)
 *
 * with lr and wd times those of the tensor. With CODES it also takes tensors whose state is codes;
 * moment_codes.clh has them. Local memory: with CODES LOCAL floats. */
#include "train/adam.clh"

KERNEL_OF(LOCAL) adamw(TABLE, const float lr, const float lr_wd, ADAM, const uint step, IN g, OUT p,
    OUT m, OUT v)
{
    SHARE;
    const float rate = lr * t.lr, decay = lr_wd * t.lr * t.decay;
#if CODES
    local float part[LOCAL];
    EACH_BLOCK {
        vec mean[PARTS], square[PARTS];
        ivec mean_peak = 0, square_peak = 0;
        const float m_old = SCALE_AT(m), v_old = SCALE_AT(v);
        EACH_PART(k, {
            const vec value = load_flat(VALUES_OF(p));
            const vec decayed = fma((vec)(-decay), value, value);
            const vec grad = load_flat(GRADS_OF(g));
            mean[k] = mean_of(grad, first_moments(load_codes(CODES_AT(m), left), m_old), b1, b1_rest);
            square[k] =
                square_of(grad, second_moments(load_codes(CODES_AT(v), left), v_old), b2, b2_rest);
            const vec direction = adam_direction(mean[k], square[k], m_scale, v_scale, eps);
            mean_peak = larger(mean_peak, mean[k]);
            square_peak = larger(square_peak, square[k]);
            store_flat(fma((vec)(-rate), direction, decayed), VALUES_OF(p));
        })
        const float m_new = scale_of(part, mean_peak), v_new = scale_of(part, square_peak);
        EACH_PART(k, {
            const uvec bits = moment_draws(i, step);
            store_codes(first_codes(mean[k], inverse_of(m_new), lower_draw(bits)), CODES_AT(m), left);
            store_codes(second_codes(square[k], inverse_of(v_new), upper_draw(bits)), CODES_AT(v), left);
        })
        if (get_local_id(0) == 0) {
            SCALE_AT(m) = m_new;
            SCALE_AT(v) = v_new;
        }
    }
#endif
    if (!IS_CODED(t))
        EACH_VECTOR {
            const vec value = load_part(VALUE_AT(p), left, 0);
            const vec direction = adam(load_part(GRAD_AT(g), left, 0), STATE_AT(m), STATE_AT(v),
                left, b1, b1_rest, b2, b2_rest, m_scale, v_scale, eps);
            const vec decayed = fma((vec)(-decay), value, value);
            store_part(fma((vec)(-rate), direction, decayed), VALUE_AT(p), left);
        }
}
