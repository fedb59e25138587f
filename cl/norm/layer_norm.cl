/* Layer normalisation of each row over its columns.
 *
 *     forward    mean[r] = the mean of x[r], inv[r] = 1 / sqrt(variance of x[r] + eps)
 *                with KEEP  stats[r] = (mean[r], inv[r])
 *     apply      mean and inv are read from stats
 *     both       y[r][c] = gamma[c] * xhat + beta[c], xhat = (x[r][c] - mean[r]) * inv[r];
 *                without AFFINE y[r][c] = xhat
 *
 * Forward takes a first mean, m, and then the sums of d = x - m and d^2 over the row:
 *     mean = m + sum d / n,    variance = sum d^2 / n - (sum d / n)^2
 * With exact sums these are the mean and the variance for any m. So the rounding of m, which is large
 * beside the deviations if the mean is, does not matter, and equal elements have exactly their mean.
 *
 * Row-wise, see rowwise.clh: a team of TEAM work-items shares a row, which stays in a near cache. x is a
 * source, y a result of narrow.clh; y may be x. Local memory: LOCAL floats where TEAM > 1. KEEP: 0 or 1; AFFINE: layer_norm.clh. */
#include "norm/layer_norm.clh"
#ifndef KEEP
#define KEEP 0 /* 0: stats are not touched */
#endif

#define OUTPUT(xhat, c) (AFFINE ? fma(GET(gamma, 0, c), xhat, GET(beta, 0, c)) : (xhat))

KERNEL_OF(LOCAL) layer_norm_forward(ROWWISE_SIZES, const float eps, MAT_SOURCE(x), MAT_IN(gamma),
    MAT_IN(beta), MAT_RESULT(y), MAT_OUT(stats))
{
    local float part[LOCAL];
    const float n = max(cols, (ulong)1);
    FOR_TEAM_ROWS(r) {
        vec sum = 0;
        FOR_TEAM_VECTORS(r, c)
            sum += GET_SOURCE(x, r, c);
        const float about = team_sum(part, SUM(sum)) / n;

        vec rest = 0, squares = 0;
        FOR_TEAM_VECTORS(r, c) {
            const vec d = DEVIATION(r, c, about);
            rest += d;
            squares = fma(d, d, squares);
        }
        const float off = team_sum(part, SUM(rest)) / n, mean = about + off;
        const float rough = fma(-off, off, team_sum(part, SUM(squares)) / n);
        const float variance = rough < 0 ? 0 : rough; /* NaN stays */
        const float inv = 1.0f / sqrt(variance + eps);

        FOR_TEAM_VECTORS(r, c)
            PUT_RESULT(OUTPUT(XHAT(r, c, mean, inv), c), y, r, c);
        if (KEEP && TEAM_LEADS(r)) {
            AT(stats, r, 0) = mean;
            AT(stats, r, 1) = inv;
        }
    }
}

KERNEL_OF(LOCAL) layer_norm_apply(ROWWISE_SIZES, MAT_SOURCE(x), MAT_IN(stats), MAT_IN(gamma),
    MAT_IN(beta), MAT_RESULT(y))
{
    FOR_TEAM_ROWS(r) {
        const ulong there = min(r, rows - 1);
        const float mean = AT(stats, there, 0), inv = AT(stats, there, 1);
        FOR_TEAM_VECTORS(r, c)
            PUT_RESULT(OUTPUT(XHAT(r, c, mean, inv), c), y, r, c);
    }
}
