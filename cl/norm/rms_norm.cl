/* Normalisation of each row by its root mean square.
 *
 *     forward    inv[r] = 1 / sqrt(mean of x[r]^2 + eps), kept with KEEP
 *     apply      inv is read
 *     both       y[r][c] = gamma[c] * (x[r][c] * inv[r]); without AFFINE x[r][c] * inv[r]
 *     backward   dx[r][c] = inv[r] * (g - xhat * mean of g * xhat)   (+ dx_beta * dx[r][c] unless dx_beta is 0)
 *                with xhat = x[r][c] * inv[r], g = gamma[c] * dy[r][c], or dy[r][c] without AFFINE; mean over
 *                row r; without GIVE_DX dx is not touched
 *                sum 0 of the columns, with SUMS = 1: dy[r][c] * xhat
 *
 * Row-wise, see rowwise.clh: a team of TEAM work-items shares a row. Backward, a group goes through its rows in
 * strips that stay in a near cache: teams take the means of a strip's rows, then all work-items take its
 * columns. x is a source, y a result of narrow.clh; y may be x; dx may be dy, if dx_beta is 0. Local memory: LOCAL + STRIP
 * floats. KEEP, AFFINE, GIVE_DX: 0 or 1. */
#include "prelude/narrow.clh"
#ifndef TEAM
#error "rms_norm.cl needs TEAM"
#endif
#ifndef AFFINE
#define AFFINE 1 /* 0: gamma is not touched */
#endif
#ifndef KEEP
#define KEEP 0 /* 0: inv is not touched */
#endif
#ifndef GIVE_DX
#define GIVE_DX 1
#endif

#define XHAT(r, c, inv) (GET_SOURCE(x, r, c) * (inv))
#define SCALED(v, c)    (AFFINE ? GET(gamma, 0, c) * (v) : (v))

#ifndef STRIP
KERNEL_OF(LOCAL) rms_norm_forward(ROWWISE_SIZES, const float eps, MAT_SOURCE(x), MAT_IN(gamma),
    MAT_RESULT(y), MAT_OUT(inv))
{
    local float part[LOCAL];
    const float n = max(cols, (ulong)1);
    FOR_TEAM_ROWS(r) {
        vec squares = 0;
        FOR_TEAM_VECTORS(r, c) {
            const vec value = GET_SOURCE(x, r, c);
            squares = fma(value, value, squares);
        }
        const float scale = 1.0f / sqrt(team_sum(part, SUM(squares)) / n + eps);
        FOR_TEAM_VECTORS(r, c)
            PUT_RESULT(SCALED(XHAT(r, c, scale), c), y, r, c);
        if (KEEP && TEAM_LEADS(r))
            AT(inv, r, 0) = scale;
    }
}

KERNEL_OF(LOCAL) rms_norm_apply(ROWWISE_SIZES, MAT_SOURCE(x), MAT_IN(inv), MAT_IN(gamma), MAT_RESULT(y))
{
    FOR_TEAM_ROWS(r) {
        const float scale = AT(inv, min(r, rows - 1), 0);
        FOR_TEAM_VECTORS(r, c)
            PUT_RESULT(SCALED(XHAT(r, c, scale), c), y, r, c);
    }
}
#else
/* Forward: y = gamma * x * inv, and inv depends on x. */
KERNEL_OF(LOCAL) rms_norm_backward(ROWWISE_SIZES, const float dx_beta, MAT_SOURCE(x), MAT_IN(inv),
    MAT_IN(gamma), MAT_IN(dy), MAT_OUT(dx), MAT_OUT(partial))
{
    local float part[LOCAL], slopes[STRIP]; /* means of g * xhat */
    const float n = max(cols, (ulong)1);
    FOR_STRIPS {
#if GIVE_DX
        FOR_TEAM_ROWS_OF(r, top, min(top + STRIP, last_row)) {
            const float scale = AT(inv, min(r, rows - 1), 0);
            vec along = 0;
            FOR_TEAM_VECTORS(r, c)
                along = fma(SCALED(GET(dy, r, c), c), XHAT(r, c, scale), along);
            const float slope = team_sum(part, SUM(along)) / n;
            if (TEAM_LEADS(r))
                slopes[r - top] = slope;
        }
        STRIP_BARRIER; /* dx may be dy: all teams must have read it */
#endif
        FOR_VECTORS(c) {
            vec dgamma = SUM_SO_FAR(0, c);
            FOR_STRIP_ROWS(r) {
                const float scale = AT(inv, r, 0);
                const vec xhat = XHAT(r, c, scale), d = GET(dy, r, c);
                dgamma = fma(d, xhat, dgamma);
                if (GIVE_DX) {
                    const vec rest = fma(-xhat, (vec)(slopes[r - top]), SCALED(d, c));
                    const vec gradient = scale * rest;
                    PUT_ADDED(gradient, dx_beta, dx, r, c);
                }
            }
            KEEP_SUM(dgamma, 0, c);
        }
        STRIP_BARRIER; /* the next strip writes the means */
    }
}
#endif
