/* Affine in front of a linear layer, whose output n = alpha * x + beta was not kept: h = n * w^T.
 *
 *     weights    scaled[o][c] = alpha[c] * w[o][c]                 so that dx = dh * scaled
 *     center     x[r][c] = x[r][c] - center[c], in place
 *     backward   partial[2 * g][c]     = sum over the rows o of group g of w[o][c] * p
 *                partial[2 * g + 1][c] = sum over the rows o of group g of w[o][c] * sums[o]
 *                dw[o][c] = alpha[c] * dw[o][c] + (beta[c] + alpha[c] * center[c]) * sums[o]
 *
 * where dw holds dh^T * (x - center) and sums the sums of the rows of dh, so that dh^T * x is p =
 * dw[o][c] + center[c] * sums[o]. Group g takes rows [g * ROWS, (g + 1) * ROWS); its LOCAL
 * work-items take vectors of VW columns in turn, the last one padded. In the backward pass they do so
 * for one strip of STRIP rows after the other, and the partial sums wait in memory meanwhile.
 * column_sum_final adds the partial sums up: dalpha and dbeta. scaled may be w.
 * No local memory. LOCAL, ROWS, STRIP: any >= 1. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "affine_product.cl needs LOCAL, ROWS and VW"
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void affine_weights(
    const ulong rows, const ulong cols, MAT_IN(alpha), MAT_IN(w), MAT_OUT(scaled))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const vec a = load_part(ROW(alpha, 0) + c, cols - c, 0);
            store_part(a * load_part(ROW(w, r) + c, cols - c, 0), ROW(scaled, r) + c, cols - c);
        }
    }
}

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void affine_center(
    const ulong rows, const ulong cols, MAT_IN_RESTRICT(center), MAT_OUT_RESTRICT(x))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const vec middle = load_part(ROW(center, 0) + c, cols - c, 0);
            store_part(load_part(ROW(x, r) + c, cols - c, 0) - middle, ROW(x, r) + c, cols - c);
        }
    }
}

#ifndef STRIP
#define STRIP ROWS
#endif

/* Forward: h = (alpha * x + beta) * w^T. */
kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void affine_product(
    const ulong rows, const ulong cols, MAT_IN_RESTRICT(w), MAT_IN_RESTRICT(alpha),
    MAT_IN_RESTRICT(beta), MAT_IN_RESTRICT(center), MAT_IN_RESTRICT(sums), MAT_OUT_RESTRICT(dw),
    MAT_OUT_RESTRICT(partial))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    global float *dalpha_sum = ROW(partial, 2 * get_group_id(0));
    global float *dbeta_sum = ROW(partial, 2 * get_group_id(0) + 1);
    for (ulong top = first; top < last; top += STRIP) {
        const ulong bottom = min(top + STRIP, last);
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            const vec a = load_part(ROW(alpha, 0) + c, left, 0);
            const vec middle = load_part(ROW(center, 0) + c, left, 0);
            const vec shift = fma(a, middle, load_part(ROW(beta, 0) + c, left, 0));
            vec dalpha = 0, dbeta = 0;
            if (top > first) {
                dalpha = load_part(dalpha_sum + c, left, 0);
                dbeta = load_part(dbeta_sum + c, left, 0);
            }
            for (ulong r = top; r < bottom; r++) {
                const float sum = AT(sums, 0, r);
                const vec weight = load_part(ROW(w, r) + c, left, 0);
                const vec product = load_part(ROW(dw, r) + c, left, 0);
                dalpha = fma(weight, fma(middle, (vec)(sum), product), dalpha);
                dbeta = fma(weight, (vec)(sum), dbeta);
                store_part(fma(a, product, shift * sum), ROW(dw, r) + c, left);
            }
            store_part(dalpha, dalpha_sum + c, left);
            store_part(dbeta, dbeta_sum + c, left);
        }
    }
}
