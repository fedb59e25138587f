/* Group normalisation of each sample over its rows and over `width` neighbouring columns, a group.
 *
 *     forward    mean[n][k], inv[n][k] = 1 / sqrt(variance + eps) of sample n, group k, into stats[n][2 k], [2 k + 1]
 *     apply      mean and inv are read from stats
 *     both       y[r][c] = gamma[c] * xhat + beta[c], xhat = (x[r][c] - mean) * inv;  without AFFINE y = xhat
 *     backward   dx[r][c] = inv * (g - mean(g) - xhat * mean(g * xhat)) + dx_beta * dx, g = gamma[c] * dy[r][c], or
 *                dy without AFFINE; means over the group, which means[n][2 k], [2 k + 1] get. Without GIVE_DX no dx;
 *                if dx_beta is 0 it does not read dx
 *                partial: of each slice the sums of dy * xhat and of dy over its rows, which column_sum_final adds up
 *
 * As in layer_norm.cl, the sums of d = x - m and d^2 with m a first mean give
 *     mean = m + sum d / n,    variance = sum d^2 / n - (sum d / n)^2
 *
 * A work-group takes a sample: its rows are those of a group in rowwise.clh, with lanes and slices. The sums of a
 * column over a slice's rows are rows SUMS * (ROW_SLICES * n + slice) + i of `partial`; forward needs SUMS 2, too. A
 * work-item then adds up the columns and slices of a group of columns. No local memory. y may be x, and dx may be dy. */
#include "prelude/rowwise.clh"
#ifndef AFFINE
#error "group_norm.cl needs AFFINE, 0 or 1"
#endif
#ifndef GIVE_DX
#define GIVE_DX 0
#endif

#define SAMPLE            get_group_id(0)
#define PARTIAL(i, slice) (SUMS * (ROW_SLICES * SAMPLE + (slice)) + (i))
#define FOR_GROUPS(k)     for (ulong k = get_local_id(0); k < cols / width; k += LOCAL)
#define ELEMENTS          ((float)(rows / get_num_groups(0) * width)) /* of a group */

/* Element 2 k + which of a row, with k the group of each of the columns c, c + 1, ... */
static inline vec per_column(
    global const float *row, const ulong c, const ulong cols, const ulong width, const uint which)
{
    float part[VW];
    ulong k = c / width, at = c % width;
    for (uint i = 0; i < VW; i++) {
        part[i] = c + i < cols ? row[2 * k + which] : 0;
        at++;
        if (at == width) {
            at = 0;
            k++;
        }
    }
    return FROM_ARRAY(part);
}

/* Adds v to the sum that a strip's rows before it left. */
#define ADD_SUM(v, i, c)                                                                           \
    PUT((top > first_row ? GET(partial, PARTIAL(i, SLICE), c) : (vec)(0.0f)) + (v), partial,       \
        PARTIAL(i, SLICE), c)

/* Sum i over the slices and the columns of group k, each times factor(column). */
#define GROUP_SUM(sum, i, k, factor)                                                               \
    float sum = 0;                                                                                 \
    for (ulong c = (k)*width; c < ((k) + 1) * width; c++) {                                        \
        float own = 0;                                                                             \
        for (uint s = 0; s < ROW_SLICES; s++)                                                      \
            own += AT(partial, PARTIAL(i, s), c);                                                  \
        sum = fma(own, factor(c), sum);                                                            \
    }
#define ONCE(c)     1.0f
#define OF_GAMMA(c) (AFFINE ? AT(gamma, 0, c) : 1.0f)

static inline vec normalised(const vec x, const vec mean, const vec inv)
{
    return (x - mean) * inv;
}

#define OUTPUT(xhat, c) (AFFINE ? fma(GET(gamma, 0, c), xhat, GET(beta, 0, c)) : (xhat))

#define WRITE_OUTPUT                                                                               \
    FOR_STRIPS                                                                                     \
        FOR_LANE_VECTORS(c) {                                                                      \
            const vec mean = per_column(ROW(stats, SAMPLE), c, cols, width, 0);                    \
            const vec inv = per_column(ROW(stats, SAMPLE), c, cols, width, 1);                     \
            FOR_SLICE_ROWS(r)                                                                      \
                PUT(OUTPUT(normalised(GET(x, r, c), mean, inv), c), y, r, c);                      \
        }

KERNEL_OF(LOCAL) group_norm_forward(LANE_SIZES, const ulong width, const float eps, MAT_IN(x),
    MAT_IN(gamma), MAT_IN(beta), MAT_OUT(y), MAT_OUT(stats), MAT_OUT(partial))
{
    FOR_STRIPS
        FOR_LANE_VECTORS(c) {
            vec sum = 0;
            FOR_SLICE_ROWS(r)
                sum += GET(x, r, c);
            ADD_SUM(sum, 0, c);
        }
    STRIP_BARRIER;
    FOR_GROUPS(k) {
        GROUP_SUM(sum, 0, k, ONCE)
        AT(stats, SAMPLE, 2 * k) = sum / ELEMENTS;
    }
    STRIP_BARRIER;
    FOR_STRIPS
        FOR_LANE_VECTORS(c) {
            const vec about = per_column(ROW(stats, SAMPLE), c, cols, width, 0);
            vec rest = 0, squares = 0;
            FOR_SLICE_ROWS(r) {
                const vec d = GET(x, r, c) - about;
                rest += d;
                squares = fma(d, d, squares);
            }
            ADD_SUM(rest, 0, c);
            ADD_SUM(squares, 1, c);
        }
    STRIP_BARRIER;
    FOR_GROUPS(k) {
        GROUP_SUM(rest, 0, k, ONCE)
        GROUP_SUM(squares, 1, k, ONCE)
        const float off = rest / ELEMENTS, rough = fma(-off, off, squares / ELEMENTS);
        const float variance = rough < 0 ? 0 : rough; /* NaN stays */
        AT(stats, SAMPLE, 2 * k) += off;
        AT(stats, SAMPLE, 2 * k + 1) = 1.0f / sqrt(variance + eps);
    }
    STRIP_BARRIER;
    WRITE_OUTPUT
}

KERNEL_OF(LOCAL) group_norm_apply(LANE_SIZES, const ulong width, MAT_IN(x), MAT_IN(stats),
    MAT_IN(gamma), MAT_IN(beta), MAT_OUT(y))
{
    WRITE_OUTPUT
}

KERNEL_OF(LOCAL) group_norm_backward(LANE_SIZES, const ulong width, const float dx_beta, MAT_IN(x),
    MAT_IN(stats), MAT_IN(gamma), MAT_IN(dy), MAT_OUT(dx), MAT_OUT(means), MAT_OUT(partial))
{
    FOR_STRIPS
        FOR_LANE_VECTORS(c) {
            const vec mean = per_column(ROW(stats, SAMPLE), c, cols, width, 0);
            const vec inv = per_column(ROW(stats, SAMPLE), c, cols, width, 1);
            vec slope = 0, offset = 0;
            FOR_SLICE_ROWS(r) {
                const vec d = GET(dy, r, c);
                slope = fma(d, normalised(GET(x, r, c), mean, inv), slope);
                offset += d;
            }
            ADD_SUM(slope, 0, c);
            ADD_SUM(offset, 1, c);
        }
    if (!GIVE_DX)
        return;
    STRIP_BARRIER;
    FOR_GROUPS(k) {
        GROUP_SUM(slope, 0, k, OF_GAMMA)
        GROUP_SUM(offset, 1, k, OF_GAMMA)
        AT(means, SAMPLE, 2 * k) = offset / ELEMENTS;
        AT(means, SAMPLE, 2 * k + 1) = slope / ELEMENTS;
    }
    STRIP_BARRIER;
    FOR_STRIPS
        FOR_LANE_VECTORS(c) {
            const vec mean = per_column(ROW(stats, SAMPLE), c, cols, width, 0);
            const vec inv = per_column(ROW(stats, SAMPLE), c, cols, width, 1);
            const vec offset = per_column(ROW(means, SAMPLE), c, cols, width, 0);
            const vec slope = per_column(ROW(means, SAMPLE), c, cols, width, 1);
            FOR_SLICE_ROWS(r) {
                const vec d = GET(dy, r, c), g = AFFINE ? GET(gamma, 0, c) * d : d;
                const vec xhat = normalised(GET(x, r, c), mean, inv);
                const vec gradient = inv * fma(-xhat, slope, g - offset);
                PUT_ADDED(gradient, dx_beta, dx, r, c);
            }
        }
}
