/* Updates of one tensor, a flat array of `count` elements: gradient g, parameter p, state m and v.
 * wd is 0 where weight decay does not apply.
 *
 *     sgd            g' = g + wd * p;  v = momentum * v + g', or g' if `start`;  p = p - lr * v
 *                    without MOMENTUM there is no v: p = p - lr * g'
 *     adamw          p = p - lr_wd * p;  m, v as below;  p = p - lr * m^ / (sqrt(v^) + eps)
 *     lamb_moments   m = b1 * m + b1_rest * g;  v = b2 * v + b2_rest * g * g;  b_rest = 1 - b
 *                    partial[i][0..3] = square sums of p and of r over group i
 *     lamb_apply     p = p - lr * |p| / |r| * r    norms from sums[0..3]; 1 where one of them is 0
 *                    r = m^ / (sqrt(v^) + eps) + wd * p
 *                    m^ = m * m_scale,  v^ = v * v_scale,  scale = 1 / (1 - b^t)
 *     square_sum     partial[i][0..1] = square sum of g over group i
 *     clip_factor    norm = |g| from sums[0..1];  factor = max_norm / norm where max_norm < norm
 *                    and norm is finite, else 1
 *     scale          g = g * factor
 *
 * A square sum is a pair: elements below 2^40 as they are; the others, and Inf, times 2^-80. So no
 * norm that fits a float overflows; elements below 1e-20 count little or nothing.
 * Group i takes elements [i * CHUNK, (i + 1) * CHUNK); its LOCAL work-items take vectors of VW in
 * turn, the last one padded; its square sums are added up in a tree over the work-items.
 * Local memory: LOCAL floats in the kernels with partial sums. CHUNK: any >= 1; TEAM: LOCAL,
 * a power of two. */
#if !defined(CHUNK) || !defined(LOCAL) || !defined(TEAM) || !defined(VW)
#error "optimizer.cl needs CHUNK, LOCAL, TEAM and VW"
#endif
#ifndef MOMENTUM
#define MOMENTUM 0 /* sgd: 0 or 1 */
#endif

#define GROUP kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1)))
#define FIRST ((ulong)get_group_id(0) * CHUNK + get_local_id(0) * VW)
#define LAST  min((ulong)(get_group_id(0) + 1) * CHUNK, count)
#define STEP  (LOCAL * VW)

GROUP void sgd(const ulong count, const float lr, const float momentum, const float wd,
    const uint start, MAT_IN_RESTRICT(g), MAT_OUT_RESTRICT(p), MAT_OUT_RESTRICT(v))
{
    const ulong last = LAST;
    for (ulong i = FIRST; i < last; i += STEP) {
        const ulong left = last - i;
        const vec value = load_part(ROW(p, 0) + i, left, 0);
        vec move = fma((vec)(wd), value, load_part(ROW(g, 0) + i, left, 0));
#if MOMENTUM
        if (!start)
            move = fma((vec)(momentum), load_part(ROW(v, 0) + i, left, 0), move);
        store_part(move, ROW(v, 0) + i, left);
#endif
        store_part(fma((vec)(-lr), move, value), ROW(p, 0) + i, left);
    }
}

/* The bias-corrected Adam direction m^ / (sqrt(v^) + eps). */
static inline vec adam_direction(
    const vec m, const vec v, const float m_scale, const float v_scale, const float eps)
{
    return m * m_scale / (sqrt(v * v_scale) + eps);
}

GROUP void adamw(const ulong count, const float lr, const float lr_wd, const float b1,
    const float b1_rest, const float b2, const float b2_rest, const float m_scale,
    const float v_scale, const float eps, MAT_IN_RESTRICT(g), MAT_OUT_RESTRICT(p),
    MAT_OUT_RESTRICT(m), MAT_OUT_RESTRICT(v))
{
    const ulong last = LAST;
    for (ulong i = FIRST; i < last; i += STEP) {
        const ulong left = last - i;
        const vec gradient = load_part(ROW(g, 0) + i, left, 0);
        const vec value = load_part(ROW(p, 0) + i, left, 0);
        const vec mean = fma((vec)(b1), load_part(ROW(m, 0) + i, left, 0), b1_rest * gradient);
        const vec square =
            fma((vec)(b2), load_part(ROW(v, 0) + i, left, 0), b2_rest * gradient * gradient);
        const vec decayed = fma((vec)(-lr_wd), value, value);
        const vec direction = adam_direction(mean, square, m_scale, v_scale, eps);
        store_part(mean, ROW(m, 0) + i, left);
        store_part(square, ROW(v, 0) + i, left);
        store_part(fma((vec)(-lr), direction, decayed), ROW(p, 0) + i, left);
    }
}

/* Adds x * x to a square sum. */
static inline void add_squares(const vec x, vec *plain, vec *scaled)
{
    const vec zero = 0, small = x * 0x1p-80f;
    *plain = fabs(x) >= (vec)(0x1p40f) ? *plain : fma(x, x, *plain);
    *scaled += fabs(x) >= (vec)(0x1p40f) ? small * small : zero;
}

static inline float norm_of(const float plain, const float scaled)
{
    return scaled > 0 ? sqrt(scaled + plain * 0x1p-80f * 0x1p-80f) * 0x1p80f : sqrt(plain);
}

GROUP void lamb_moments(const ulong count, const float wd, const float b1, const float b1_rest,
    const float b2, const float b2_rest, const float m_scale, const float v_scale, const float eps,
    MAT_IN_RESTRICT(g), MAT_IN_RESTRICT(p), MAT_OUT_RESTRICT(m), MAT_OUT_RESTRICT(v),
    MAT_OUT_RESTRICT(partial))
{
    local float part[LOCAL];
    const ulong last = LAST;
    vec p_plain = 0, p_scaled = 0, r_plain = 0, r_scaled = 0;
    for (ulong i = FIRST; i < last; i += STEP) {
        const ulong left = last - i;
        const vec gradient = load_part(ROW(g, 0) + i, left, 0);
        const vec value = load_part(ROW(p, 0) + i, left, 0);
        const vec mean = fma((vec)(b1), load_part(ROW(m, 0) + i, left, 0), b1_rest * gradient);
        const vec square =
            fma((vec)(b2), load_part(ROW(v, 0) + i, left, 0), b2_rest * gradient * gradient);
        const vec direction = adam_direction(mean, square, m_scale, v_scale, eps);
        store_part(mean, ROW(m, 0) + i, left);
        store_part(square, ROW(v, 0) + i, left);
        add_squares(value, &p_plain, &p_scaled);
        /* The padding's direction is 0 / eps, which eps = 0 makes a NaN. */
        add_squares(keep_part(fma((vec)(wd), value, direction), left), &r_plain, &r_scaled);
    }
    const float4 sums = (float4)(team_sum(part, SUM(p_plain)), team_sum(part, SUM(p_scaled)),
        team_sum(part, SUM(r_plain)), team_sum(part, SUM(r_scaled)));
    if (get_local_id(0) == 0)
        vstore4(sums, 0, ROW(partial, get_group_id(0)));
}

GROUP void lamb_apply(const ulong count, const float lr, const float wd, const float m_scale,
    const float v_scale, const float eps, MAT_IN_RESTRICT(sums), MAT_IN_RESTRICT(m),
    MAT_IN_RESTRICT(v), MAT_OUT_RESTRICT(p))
{
    const float p_norm = norm_of(AT(sums, 0, 0), AT(sums, 0, 1));
    const float r_norm = norm_of(AT(sums, 0, 2), AT(sums, 0, 3));
    const float ratio = p_norm == 0 || r_norm == 0 ? 1 : p_norm / r_norm;
    const ulong last = LAST;
    for (ulong i = FIRST; i < last; i += STEP) {
        const ulong left = last - i;
        const vec value = load_part(ROW(p, 0) + i, left, 0);
        const vec direction = adam_direction(load_part(ROW(m, 0) + i, left, 0),
            load_part(ROW(v, 0) + i, left, 0), m_scale, v_scale, eps);
        const vec move = fma((vec)(wd), value, direction);
        store_part(fma((vec)(-lr * ratio), move, value), ROW(p, 0) + i, left);
    }
}

GROUP void square_sum(const ulong count, MAT_IN_RESTRICT(g), MAT_OUT_RESTRICT(partial))
{
    local float part[LOCAL];
    const ulong last = LAST;
    vec plain = 0, scaled = 0;
    for (ulong i = FIRST; i < last; i += STEP)
        add_squares(load_part(ROW(g, 0) + i, last - i, 0), &plain, &scaled);
    const float2 sums = (float2)(team_sum(part, SUM(plain)), team_sum(part, SUM(scaled)));
    if (get_local_id(0) == 0)
        vstore2(sums, 0, ROW(partial, get_group_id(0)));
}

/* One work-item of one group. */
GROUP void clip_factor(const float max_norm, MAT_IN_RESTRICT(sums), MAT_OUT_RESTRICT(norm),
    MAT_OUT_RESTRICT(factor))
{
    const float found = norm_of(AT(sums, 0, 0), AT(sums, 0, 1));
    if (get_local_id(0) == 0) {
        AT(norm, 0, 0) = found;
        AT(factor, 0, 0) = found > max_norm && found <= FLT_MAX ? max_norm / found : 1;
    }
}

GROUP void scale(const ulong count, MAT_IN_RESTRICT(factor), MAT_OUT_RESTRICT(g))
{
    const float by = AT(factor, 0, 0);
    const ulong last = by == 1 ? 0 : LAST;
    for (ulong i = FIRST; i < last; i += STEP)
        store_part(load_part(ROW(g, 0) + i, last - i, 0) * by, ROW(g, 0) + i, last - i);
}
