/* Updates of parameters p by gradients g with state m and v; optimizer.clh has the table of tensors
 * and the square sums. wd is 0 where weight decay does not apply.
 *
 *     sgd            g' = g + wd * p;  v = momentum * v + g', or g' in step 0;  p = p - lr * v
 *                    without MOMENTUM there is no v: p = p - lr * g'
 *     adamw          p = p - lr_wd * p;  m, v as below;  p = p - lr * m^ / (sqrt(v^) + eps)
 *     lamb_moments   m = b1 * m + b1_rest * g;  v = b2 * v + b2_rest * g * g;  b_rest = 1 - b
 *                    partial[i][0..3] = square sums of p and of r over group i
 *     lamb_ratio     ratio[t] = |p| / |r| of the tensor in row t; 1 where one of them is 0
 *     lamb_apply     p = p - lr * ratio[t] * r
 *                    r = m^ / (sqrt(v^) + eps) + wd * p
 *                    m^ = m * m_scale,  v^ = v * v_scale,  scale = 1 / (1 - b^t)
 *
 * lamb_ratio takes the whole table, with a group of SLICES work-items for each row. With CODES, sgd and
 * adamw also take tensors whose state is codes; moment_codes.clh has them.
 * Local memory: LOCAL floats in lamb_moments, sgd and adamw with CODES; SLICES float4 in lamb_ratio.
 * SLICES: any >= 1. */
#include "train/moment_codes.clh"
#ifndef MOMENTUM
#define MOMENTUM 0 /* sgd: 0 or 1 */
#endif
#ifndef SLICES
#error "optimizer.cl needs SLICES"
#endif

#define ADAM                                                                                       \
    const float b1, const float b1_rest, const float b2, const float b2_rest, const float m_scale, \
        const float v_scale, const float eps

KERNEL_OF(LOCAL) sgd(TABLE, const float lr, const float momentum, const float wd, const uint step,
    IN g, OUT p, OUT v)
{
    SHARE;
    const float decay = IS_DECAYED(t) ? wd : 0;
#if CODES && MOMENTUM
    local float part[LOCAL];
    EACH_BLOCK {
        vec moves[PARTS];
        ivec peak = 0;
        const float old = SCALE_AT(v);
        EACH_PART(k, {
            const vec value = load_flat(VALUES_OF(p));
            vec move = fma((vec)(decay), value, load_flat(GRADS_OF(g)));
            if (step > 0)
                move = fma((vec)(momentum), first_moments(load_codes(CODES_AT(v), left), old), move);
            moves[k] = move;
            peak = larger(peak, move);
            store_flat(fma((vec)(-lr), move, value), VALUES_OF(p));
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
            vec move = fma((vec)(decay), value, load_part(GRAD_AT(g), left, 0));
#if MOMENTUM
            if (step > 0)
                move = fma((vec)(momentum), load_part(STATE_AT(v), left, 0), move);
            store_part(move, STATE_AT(v), left);
#endif
            store_part(fma((vec)(-lr), move, value), VALUE_AT(p), left);
        }
}

/* The bias-corrected Adam direction m^ / (sqrt(v^) + eps). */
static inline vec adam_direction(
    const vec m, const vec v, const float m_scale, const float v_scale, const float eps)
{
    return m * m_scale / (sqrt(v * v_scale) + eps);
}

static inline vec mean_of(const vec g, const vec m, const float b1, const float b1_rest)
{
    return fma((vec)(b1), m, b1_rest * g);
}

static inline vec square_of(const vec g, const vec v, const float b2, const float b2_rest)
{
    return fma((vec)(b2), v, b2_rest * g * g);
}

/* Updates the moments at m and v by gradient g; returns the new direction. */
static inline vec adam(const vec g, global float *m, global float *v, const ulong left, ADAM)
{
    const vec mean = mean_of(g, load_part(m, left, 0), b1, b1_rest);
    const vec square = square_of(g, load_part(v, left, 0), b2, b2_rest);
    store_part(mean, m, left);
    store_part(square, v, left);
    return adam_direction(mean, square, m_scale, v_scale, eps);
}

KERNEL_OF(LOCAL) adamw(TABLE, const float lr, const float lr_wd, ADAM, const uint step, IN g, OUT p,
    OUT m, OUT v)
{
    SHARE;
    const float decay = IS_DECAYED(t) ? lr_wd : 0;
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
            store_flat(fma((vec)(-lr), direction, decayed), VALUES_OF(p));
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
            store_part(fma((vec)(-lr), direction, decayed), VALUE_AT(p), left);
        }
}

KERNEL_OF(LOCAL) lamb_moments(TABLE, const float wd, ADAM, IN g, IN p, OUT m, OUT v,
    MAT_OUT_RESTRICT(partial))
{
    local float part[LOCAL];
    SHARE;
    const float decay = IS_DECAYED(t) ? wd : 0;
    vec p_plain = 0, p_scaled = 0, r_plain = 0, r_scaled = 0;
    EACH_VECTOR {
        const vec value = load_part(VALUE_AT(p), left, 0);
        const vec direction = adam(load_part(GRAD_AT(g), left, 0), STATE_AT(m), STATE_AT(v), left,
            b1, b1_rest, b2, b2_rest, m_scale, v_scale, eps);
        add_squares(value, &p_plain, &p_scaled);
        /* The padding's direction is 0 / eps: NaN with eps = 0. */
        add_squares(keep_part(fma((vec)(decay), value, direction), left), &r_plain, &r_scaled);
    }
    const float4 sums = (float4)(team_sum(part, SUM(p_plain)), team_sum(part, SUM(p_scaled)),
        team_sum(part, SUM(r_plain)), team_sum(part, SUM(r_scaled)));
    if (get_local_id(0) == 0) /* reads the table again: t.partial would take registers */
        vstore4(sums, 0, ROW(partial, table[index].partial + chunk));
}

/* Work-item s adds up the partial sums s, s + SLICES, ...; work-item 0 adds up the work-items in order. */
KERNEL_OF(SLICES) lamb_ratio(TABLE, MAT_IN_RESTRICT(partial), MAT_OUT_RESTRICT(ratio))
{
    local float4 slices[SLICES];
    const ulong index = get_group_id(0), groups = (table[index].count + CHUNK - 1) / CHUNK;
    float4 sums = 0;
    for (ulong i = get_local_id(0); i < groups; i += SLICES)
        sums += vload4(0, ROW(partial, table[index].partial + i));
    slices[get_local_id(0)] = sums;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = 1; s < SLICES; s++)
        sums += slices[s];
    const float p_norm = norm_of(sums.s0, sums.s1), r_norm = norm_of(sums.s2, sums.s3);
    if (get_local_id(0) == 0)
        AT(ratio, 0, index) = p_norm == 0 || r_norm == 0 ? 1 : p_norm / r_norm;
}

KERNEL_OF(LOCAL) lamb_apply(TABLE, const float lr, const float wd, const float m_scale,
    const float v_scale, const float eps, MAT_IN_RESTRICT(ratio), IN m, IN v, OUT p)
{
    SHARE;
    const float decay = IS_DECAYED(t) ? wd : 0, rate = lr * AT(ratio, 0, index);
    EACH_VECTOR {
        const vec value = load_part(VALUE_AT(p), left, 0);
        const vec direction = adam_direction(load_part(STATE_AT(m), left, 0),
            load_part(STATE_AT(v), left, 0), m_scale, v_scale, eps);
        const vec move = fma((vec)(decay), value, direction);
        store_part(fma((vec)(-rate), move, value), VALUE_AT(p), left);
    }
}
