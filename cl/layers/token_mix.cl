/* The token-mixing half of a ResMLP block, y = x + ls * (W n + b 1^T) with n = alpha * x + beta for
 * each sample, backward from x alone: neither n nor the linear layer's output was kept.
 *
 *     input      m[r][c]  = ls[c] * (alpha[c] * x[r][c] + beta[c])     dW = sum of dy_n * m_n^T
 *     backward   with u_n = W^T * dy_n, dn = ls * u, n = alpha * x + beta:
 *                dx[r][c] = dy[r][c] + alpha[c] * dn[r][c], overwrites dy
 *                sum 0 of the columns: n * u + b[r mod tokens] * dy;  sum 1: x * dn;  sum 2: dn
 *                row_sums[r] = sum_c ls[c] * dy[r][c], for db
 *
 * Row-wise, see rowwise.clh; the sums of the columns are dls, dalpha, dbeta. Local memory, in the
 * backward pass: STRIP * LOCAL vectors, see row_sums_end. SUMS 3 in the backward pass. */
#include "prelude/rowwise.clh"
#include "prelude/row_sums.clh"

KERNEL_OF(LOCAL) token_mix_input(ROWWISE_SIZES, MAT_IN_RESTRICT(x), MAT_IN_RESTRICT(alpha),
    MAT_IN_RESTRICT(beta), MAT_IN_RESTRICT(ls), MAT_OUT_RESTRICT(m))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            const vec n = fma(GET(alpha, 0, c), GET(x, r, c), GET(beta, 0, c));
            PUT(GET(ls, 0, c) * n, m, r, c);
        }
}

#if SUMS > 0
/* Forward: y = x + ls * (W n + b 1^T), n = alpha * x + beta. */
KERNEL_OF(LOCAL) token_mix_backward(ROWWISE_SIZES, const ulong tokens, MAT_IN_RESTRICT(x),
    MAT_IN_RESTRICT(alpha), MAT_IN_RESTRICT(beta), MAT_IN_RESTRICT(b), MAT_IN_RESTRICT(ls),
    MAT_IN_RESTRICT(u), MAT_OUT_RESTRICT(dx), MAT_OUT_RESTRICT(partial), MAT_OUT_RESTRICT(row_sums))
{
    local vec own[STRIP * LOCAL];
    FOR_STRIPS {
        const ulong first_token = top % tokens;
        row_sums_begin(own, STRIP);
        FOR_VECTORS(c) {
            const vec a = GET(alpha, 0, c), shift = GET(beta, 0, c), scale = GET(ls, 0, c);
            vec dls = SUM_SO_FAR(0, c), dalpha = SUM_SO_FAR(1, c), dbeta = SUM_SO_FAR(2, c);
            ulong token = first_token;
            FOR_STRIP_ROWS(r) {
                const vec in = GET(x, r, c), dt = GET(u, r, c), dy = GET(dx, r, c);
                const vec dn = scale * dt;
                dls = fma((vec)(AT(b, 0, token)), dy, fma(fma(a, in, shift), dt, dls));
                dalpha = fma(in, dn, dalpha);
                dbeta += dn;
                row_sums_add(own, r - top, scale * dy);
                PUT(fma(a, dn, dy), dx, r, c);
                token = token + 1 == tokens ? 0 : token + 1;
            }
            KEEP_SUM(dls, 0, c);
            KEEP_SUM(dalpha, 1, c);
            KEEP_SUM(dbeta, 2, c);
        }
        row_sums_end(own, STRIP, min((ulong)STRIP, last_row - top), ROW(row_sums, 0) + top);
    }
}
#endif
