/* Moments of columns: the mean, and m2 = the sum of squared deviations from it.
 *
 *     batch_norm_partial      of the rows of group g: partial[2 g] = mean, partial[2 g + 1] = m2
 *     batch_norm_merge        of all groups, and with `before` > 0 of `before` rows whose moments are in
 *                             mean and m2
 *     batch_norm_statistics   inv[c] = 1 / sqrt(m2[c] / count + eps), with RUNNING also
 *                             running_mean = (1 - momentum) running_mean + momentum mean
 *                             running_var  = (1 - momentum) running_var + momentum m2 / (count - 1)
 *
 * batch_norm_partial is row-wise with lanes, see rowwise.clh. A work-item reads TAKE of its rows at a
 * time into registers, computes their mean and m2 in two passes, and merges them into its own moments
 * (Chan, Golub, LeVeque):
 *
 *     d = mean_b - mean,   mean += d n_b / (n + n_b),   m2 += m2_b + d^2 n n_b / (n + n_b)
 *
 * Then slice 0 merges the slices in order.
 *
 * batch_norm_merge: group i has ROW_LANES * VW columns from i * ROW_LANES * VW on. Its slices take partial
 * moments in turn, and are added up in order. With first = partial[0] and n all rows:
 *
 *     mean = first + sum of (mean_g - first) n_g / n,   m2 = sum of m2_g + n_g (mean_g - mean)^2
 *
 * Local memory: up to 2 vectors a work-item. RUNNING: 0 or 1. */
#include "prelude/rowwise.clh"
#define TAKE 8

#ifndef RUNNING
#define RUNNING 0 /* 0: running_mean and running_var are not touched */
#endif

typedef struct moments {
    vec mean, m2;
} moments;

static inline moments merge(const moments a, const float n, const moments b, const float n_b)
{
    const float share = n_b / (n + n_b);
    const vec d = b.mean - a.mean;
    const moments both = {fma(d, (vec)(share), a.mean), a.m2 + fma(d, d * (n * share), b.m2)};
    return both;
}

/* Moments of TAKE rows, `step` floats apart. */
static inline moments of_take(global const float *p, const ulong step)
{
    vec row[TAKE];
    UNROLLED(i, TAKE)
        row[i] = LOAD(p + i * step);
    const vec sum =
        ((row[0] + row[1]) + (row[2] + row[3])) + ((row[4] + row[5]) + (row[6] + row[7]));
    moments m = {sum * (1.0f / TAKE), 0};
    UNROLLED(i, TAKE) {
        const vec d = row[i] - m.mean;
        m.m2 = fma(d, d, m.m2);
    }
    return m;
}

/* Moments of `count` rows, `step` floats apart; of the vector's columns, the first `left` exist. */
static inline moments of_rows(
    global const float *p, const ulong step, const ulong count, const ulong left)
{
    moments m = {0, 0};
    for (ulong i = 0; i < count; i++)
        m.mean += load_part(p + i * step, left, 0);
    m.mean *= 1.0f / (float)count;
    for (ulong i = 0; i < count; i++) {
        const vec d = load_part(p + i * step, left, 0) - m.mean;
        m.m2 = fma(d, d, m.m2);
    }
    return m;
}

/* The number of rows that slice s of `slices` takes of n rows. */
static inline ulong slice_rows(const ulong n, const uint s, const uint slices)
{
    return n > s ? (n - s - 1) / slices + 1 : 0;
}

KERNEL_OF(LOCAL) batch_norm_partial(LANE_SIZES, MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(partial))
{
#if LOCAL > 1
    local moments part[LOCAL];
#endif
    FOR_STRIPS
        FOR_LANE_BLOCKS(c) {
            const bool there = c < cols;
            const ulong bottom = min(top + STRIP_ROWS, last_row);
            const ulong own = there ? slice_rows(bottom - top, SLICE, ROW_SLICES) : 0;
            moments m = {0, 0};
            ulong n = top - first_row; /* with several slices there is one strip, so 0 */
            if (there && n > 0) {
                m.mean = GET(partial, SUM_ROW(0), c);
                m.m2 = GET(partial, SUM_ROW(1), c);
            }
            for (ulong k = 0; k < own; k += TAKE) {
                global const float *p = ROW(x, top + SLICE + k * ROW_SLICES) + c;
                const ulong count = min(own - k, (ulong)TAKE);
                const moments more = count == TAKE && c + VW <= cols
                                         ? of_take(p, ROW_SLICES * x_ld)
                                         : of_rows(p, ROW_SLICES * x_ld, count, cols - c);
                m = merge(m, (float)n, more, (float)count);
                n += count;
            }
#if LOCAL > 1
            part[get_local_id(0)] = m;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint s = 1; SLICE == 0 && s < ROW_SLICES && s < bottom - top; s++) {
                const ulong more = slice_rows(bottom - top, s, ROW_SLICES);
                m = merge(m, (float)n, part[s * ROW_LANES + LANE], (float)more);
                n += more;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
#endif
            if (there && SLICE == 0) {
                PUT(m.mean, partial, SUM_ROW(0), c);
                PUT(m.m2, partial, SUM_ROW(1), c);
            }
        }
}

/* The sum over the slices of a lane, added up in order; every slice gets it. */
static inline vec sum_of_slices(local vec *part, vec value, const uint lanes)
{
#if LOCAL > 1
    part[get_local_id(0)] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    value = part[get_local_id(0) % lanes];
    for (uint i = get_local_id(0) % lanes + lanes; i < LOCAL; i += lanes)
        value += part[i];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    return value;
}

KERNEL_OF(LOCAL) batch_norm_merge(LANE_SIZES, const ulong before, MAT_IN_RESTRICT(partial),
    MAT_OUT_RESTRICT(mean), MAT_OUT_RESTRICT(m2))
{
    local vec part[LOCAL];
    const ulong c = (get_group_id(0) * ROW_LANES + LANE) * VW;
    const ulong groups = c < cols ? (rows + group_rows - 1) / group_rows : 0;
    const bool add = SLICE == 0 && before > 0 && c < cols;
    const float n = (float)(before + rows);
    vec first = 0, sum = 0;
    if (groups > 0)
        first = GET(partial, 0, c);
    if (add)
        sum = (GET(mean, 0, c) - first) * ((float)before / n);
    for (ulong g = SLICE; g < groups; g += ROW_SLICES) {
        const float share = (float)min(group_rows, rows - g * group_rows) / n;
        sum = fma(GET(partial, 2 * g, c) - first, (vec)(share), sum);
    }
    const vec middle = first + sum_of_slices(part, sum, ROW_LANES);
    sum = 0;
    if (add) {
        const vec d = GET(mean, 0, c) - middle;
        sum = fma(d, d * (float)before, GET(m2, 0, c));
    }
    for (ulong g = SLICE; g < groups; g += ROW_SLICES) {
        const vec d = GET(partial, 2 * g, c) - middle;
        const float count = (float)min(group_rows, rows - g * group_rows);
        sum += fma(d, d * count, GET(partial, 2 * g + 1, c));
    }
    sum = sum_of_slices(part, sum, ROW_LANES);
    if (SLICE == 0 && c < cols) {
        PUT(middle, mean, 0, c);
        PUT(sum, m2, 0, c);
    }
}

KERNEL_OF(LOCAL) batch_norm_statistics(ROWWISE_SIZES, const float count, const float eps,
    const float momentum, MAT_IN(mean), MAT_IN(m2), MAT_OUT(inv), MAT_OUT(running_mean),
    MAT_OUT(running_var))
{
    FOR_VECTORS(c) {
        const vec squares = GET(m2, 0, c);
#if RUNNING
        const float old = 1.0f - momentum;
        PUT(fma((vec)(momentum), GET(mean, 0, c), old * GET(running_mean, 0, c)), running_mean, 0, c);
        PUT(fma((vec)(momentum), squares / (count - 1.0f), old * GET(running_var, 0, c)),
            running_var, 0, c);
#endif
        PUT(1.0f / sqrt(squares / count + eps), inv, 0, c);
    }
}
