/* The token half of a ResMLP block, y = x + ls * (W n + b 1^T) with n = alpha * x + beta for each
 * sample, where neither n nor the token linear's output was kept.
 *
 *     input      m[r][c]  = ls[c] * (alpha[c] * x[r][c] + beta[c])     dW = sum of dy_n * m_n^T
 *     backward   with u_n = W^T * dy_n, dn = ls * u, n = alpha * x + beta:
 *                dx[r][c] = dy[r][c] + alpha[c] * dn[r][c], in the place of dy
 *                partial[3 * g][c]     = sum over group g of n * u + b[r mod tokens] * dy
 *                partial[3 * g + 1][c] = sum over group g of x * dn
 *                partial[3 * g + 2][c] = sum over group g of dn
 *                row_sums[r] = sum_c ls[c] * dy[r][c], of which db is made
 *
 * Group g takes rows [g * ROWS, (g + 1) * ROWS); its LOCAL work-items take vectors of VW columns in
 * turn, the last one padded. In the backward pass they do so for one strip of STRIP rows after the
 * other, and the partial sums wait in memory meanwhile. A column is one work-item's, in the order of
 * the rows. column_sum_final adds the partial sums up: dls, dalpha, dbeta. Local memory, in the
 * backward pass: STRIP * LOCAL vectors, see row_sums_end.
 * LOCAL, ROWS, STRIP: any >= 1. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "token_mix.cl needs LOCAL, ROWS and VW"
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void token_mix_input(const ulong rows,
    const ulong cols, MAT_IN_RESTRICT(x), MAT_IN_RESTRICT(alpha), MAT_IN_RESTRICT(beta),
    MAT_IN_RESTRICT(ls), MAT_OUT_RESTRICT(m))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            const vec a = load_part(ROW(alpha, 0) + c, left, 0);
            const vec n = fma(
                a, load_part(ROW(x, r) + c, left, 0), load_part(ROW(beta, 0) + c, left, 0));
            store_part(load_part(ROW(ls, 0) + c, left, 0) * n, ROW(m, r) + c, left);
        }
    }
}

#ifndef STRIP
#define STRIP 8
#endif

/* Forward: y = x + ls * (W n + b 1^T), n = alpha * x + beta. */
kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void token_mix_backward(
    const ulong rows, const ulong cols, const ulong tokens, MAT_IN_RESTRICT(x),
    MAT_IN_RESTRICT(alpha), MAT_IN_RESTRICT(beta), MAT_IN_RESTRICT(b), MAT_IN_RESTRICT(ls),
    MAT_IN_RESTRICT(u), MAT_OUT_RESTRICT(dx), MAT_OUT_RESTRICT(partial),
    MAT_OUT_RESTRICT(row_sums))
{
    local vec own[STRIP * LOCAL];
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    global float *dls_sum = ROW(partial, 3 * get_group_id(0));
    global float *dalpha_sum = ROW(partial, 3 * get_group_id(0) + 1);
    global float *dbeta_sum = ROW(partial, 3 * get_group_id(0) + 2);
    for (ulong top = first; top < last; top += STRIP) {
        const ulong bottom = min(top + STRIP, last);
        const ulong first_token = top % tokens;
        row_sums_begin(own, STRIP);
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            const vec a = load_part(ROW(alpha, 0) + c, left, 0);
            const vec shift = load_part(ROW(beta, 0) + c, left, 0);
            const vec scale = load_part(ROW(ls, 0) + c, left, 0);
            vec dls = 0, dalpha = 0, dbeta = 0;
            if (top > first) {
                dls = load_part(dls_sum + c, left, 0);
                dalpha = load_part(dalpha_sum + c, left, 0);
                dbeta = load_part(dbeta_sum + c, left, 0);
            }
            ulong token = first_token;
            for (ulong r = top; r < bottom; r++) {
                const vec in = load_part(ROW(x, r) + c, left, 0);
                const vec dt = load_part(ROW(u, r) + c, left, 0);
                const vec dy = load_part(ROW(dx, r) + c, left, 0);
                const vec dn = scale * dt;
                dls = fma((vec)(AT(b, 0, token)), dy, fma(fma(a, in, shift), dt, dls));
                dalpha = fma(in, dn, dalpha);
                dbeta += dn;
                row_sums_add(own, r - top, scale * dy);
                store_part(fma(a, dn, dy), ROW(dx, r) + c, left);
                token = token + 1 == tokens ? 0 : token + 1;
            }
            store_part(dls, dls_sum + c, left);
            store_part(dalpha, dalpha_sum + c, left);
            store_part(dbeta, dbeta_sum + c, left);
        }
        row_sums_end(own, STRIP, bottom - top, ROW(row_sums, 0) + top);
    }
}
