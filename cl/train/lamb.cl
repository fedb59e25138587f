/* LAMB of parameters p by gradients g with state m and v, which adam.clh has; optimizer.clh has the table of
 * tensors and the square sums; lr and wd are times those of the tensor.
 *
 *     lamb_moments   the new m, v;  partial[i][0..3] = square sums of p and of r over group i
 *     lamb_ratio     ratio[t] = |p| / |r| of the tensor in row t; 1 where one of them is 0
 *     lamb_apply     p = p - lr * ratio[t] * r
 *                    r = m^ / (sqrt(v^) + eps) + wd * p
 *
 * lamb_ratio takes the whole table, with a group of SLICES work-items for each row.
 * Local memory: LOCAL floats in lamb_moments, SLICES float4 in lamb_ratio. SLICES: any >= 1. */
#include "train/adam.clh"
#ifndef SLICES
#error "lamb.cl needs SLICES"
#endif

KERNEL_OF(LOCAL) lamb_moments(TABLE, const float wd, ADAM, IN g, IN p, OUT m, OUT v,
    MAT_OUT_RESTRICT(partial))
{
    local float part[LOCAL];
    SHARE;
    const float decay = wd * t.decay;
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
    const float decay = wd * t.decay, rate = lr * t.lr * AT(ratio, 0, index);
    EACH_VECTOR {
        const vec value = load_part(VALUE_AT(p), left, 0);
        const vec direction = adam_direction(load_part(STATE_AT(m), left, 0),
            load_part(STATE_AT(v), left, 0), m_scale, v_scale, eps);
        const vec move = fma((vec)(decay), value, direction);
        store_part(fma((vec)(-rate), move, value), VALUE_AT(p), left);
    }
}
