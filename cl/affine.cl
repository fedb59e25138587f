/* Affine, per feature c: y = alpha * x + beta, and its gradients.
 *
 *     forward    y[r][c]  = alpha[c] * x[r][c] + beta[c]
 *     backward   dx[r][c] = alpha[c] * dy[r][c]            (+ dx[r][c] with ACCUMULATE)
 *                partial[2 * g][c]     = sum over the rows r of group g of x[r][c] * dy[r][c]
 *                partial[2 * g + 1][c] = sum over the rows r of group g of dy[r][c]
 *
 * Group g takes rows [g * ROWS, (g + 1) * ROWS); its LOCAL work-items take vectors of VW columns in
 * turn, the last one padded. In the backward pass they do so for one strip of STRIP rows after the
 * other, and the partial sums wait in memory meanwhile: on CPUs few rows read side by side are what
 * the caches are good at. A column is one work-item's, in the order of the rows. column_sum_final
 * adds the partial sums up. y may be x; dx may be dy. No local memory.
 * LOCAL, ROWS, STRIP: any >= 1. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "affine.cl needs LOCAL, ROWS and VW"
#endif
#ifndef ACCUMULATE
#define ACCUMULATE 0 /* 0: dx is overwritten; 1: dx is added to */
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void affine_forward(const ulong rows,
    const ulong cols, MAT_IN(x), MAT_IN(alpha), MAT_IN(beta), MAT_OUT(y))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            const vec a = load_part(ROW(alpha, 0) + c, left, 0);
            const vec b = load_part(ROW(beta, 0) + c, left, 0);
            store_part(fma(a, load_part(ROW(x, r) + c, left, 0), b), ROW(y, r) + c, left);
        }
    }
}

#ifndef STRIP
#define STRIP ROWS
#endif

/* Forward: y = alpha * x + beta. */
kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void affine_backward(const ulong rows,
    const ulong cols, MAT_IN(x), MAT_IN(alpha), MAT_IN(dy), MAT_OUT(dx), MAT_OUT(partial))
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
            vec dalpha = 0, dbeta = 0;
            if (top > first) {
                dalpha = load_part(dalpha_sum + c, left, 0);
                dbeta = load_part(dbeta_sum + c, left, 0);
            }
            for (ulong r = top; r < bottom; r++) {
                const vec d = load_part(ROW(dy, r) + c, left, 0);
                dalpha = fma(load_part(ROW(x, r) + c, left, 0), d, dalpha);
                dbeta += d;
#if ACCUMULATE
                store_part(fma(a, d, load_part(ROW(dx, r) + c, left, 0)), ROW(dx, r) + c, left);
#else
                store_part(a * d, ROW(dx, r) + c, left);
#endif
            }
            store_part(dalpha, dalpha_sum + c, left);
            store_part(dbeta, dbeta_sum + c, left);
        }
    }
}
