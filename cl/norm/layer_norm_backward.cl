/* The backward pass of layer normalisation, y = gamma * xhat + beta, xhat = (x - mean) * inv.
 *
 *     dx[r][c] = inv[r] * (g - mean of g - xhat * mean of g * xhat)   (+ dx_beta * dx[r][c] unless dx_beta is 0)
 *                with g = gamma[c] * dy[r][c], or dy[r][c] without AFFINE; means over row r
 *     sum 0 of the columns: dy[r][c] * xhat;  sum 1: dy[r][c]
 *
 * x is a source of narrow.clh. stats[r] = (mean, inv). Without GIVE_DX dx is not touched.
 * Row-wise, see rowwise.clh. A group goes through its rows in strips that stay in a near cache: teams of
 * TEAM work-items take the means of a strip's rows, then all work-items take its columns. dx may be dy,
 * if dx_beta is 0. Local memory: LOCAL + 2 * STRIP floats. GIVE_DX: 0 or 1; SUMS: 0 or 2;
 * AFFINE: layer_norm.clh. */
#include "norm/layer_norm.clh"
#ifndef STRIP
#error "layer_norm_backward.cl needs STRIP"
#endif
#ifndef GIVE_DX
#define GIVE_DX 1
#endif

KERNEL_OF(LOCAL) layer_norm_backward(ROWWISE_SIZES, const float dx_beta, MAT_SOURCE(x), MAT_IN(stats),
    MAT_IN(gamma), MAT_IN(dy), MAT_OUT(dx), MAT_OUT(partial))
{
    local float part[LOCAL], offsets[STRIP], slopes[STRIP]; /* means of g and of g * xhat */
    const float n = max(cols, (ulong)1);
    FOR_STRIPS {
#if GIVE_DX
        FOR_TEAM_ROWS_OF(r, top, min(top + STRIP, last_row)) {
            const ulong there = min(r, rows - 1);
            const float mean = AT(stats, there, 0), inv = AT(stats, there, 1);
            vec plain = 0, along = 0;
            FOR_TEAM_VECTORS(r, c) {
                const vec d = GET(dy, r, c), g = AFFINE ? GET(gamma, 0, c) * d : d;
                plain += g;
                along = fma(g, XHAT(r, c, mean, inv), along);
            }
            const float offset = team_sum(part, SUM(plain)) / n;
            const float slope = team_sum(part, SUM(along)) / n;
            if (TEAM_LEADS(r)) {
                offsets[r - top] = offset;
                slopes[r - top] = slope;
            }
        }
        STRIP_BARRIER; /* dx may be dy: all teams must have read it */
#endif
        FOR_VECTORS(c) {
            const vec scale = AFFINE && GIVE_DX ? GET(gamma, 0, c) : (vec)(1.0f);
            vec dgamma = SUM_SO_FAR(0, c), dbeta = SUM_SO_FAR(1, c);
            FOR_STRIP_ROWS(r) {
                const float inv = AT(stats, r, 1);
                const vec xhat = XHAT(r, c, AT(stats, r, 0), inv), d = GET(dy, r, c);
                dgamma = fma(d, xhat, dgamma);
                dbeta += d;
                if (GIVE_DX) {
                    const vec g = AFFINE ? scale * d : d;
                    const vec rest = fma(-xhat, (vec)(slopes[r - top]), g - offsets[r - top]);
                    const vec gradient = inv * rest;
                    PUT_ADDED(gradient, dx_beta, dx, r, c);
                }
            }
            KEEP_SUM(dgamma, 0, c);
            KEEP_SUM(dbeta, 1, c);
        }
        STRIP_BARRIER; /* the next strip writes the means */
    }
}
