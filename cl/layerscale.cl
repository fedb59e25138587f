/* LayerScale with residual, per feature c: y = x + ls * t, and its gradients.
 *
 *     forward    y[r][c]  = x[r][c] + ls[c] * t[r][c]
 *     backward   dt[r][c] = ls[c] * dy[r][c]
 *                partial[SUMS * g][c] = sum over the rows r of group g of t[r][c] * dy[r][c]
 *                with SUMS = 2  partial[2 * g + 1][c] = sum over the same rows of dt[r][c]
 *                with ROW_SUMS  row_sums[r] = sum_c dt[r][c]
 *
 * Group g takes rows [g * ROWS, (g + 1) * ROWS); its LOCAL work-items take vectors of VW columns in
 * turn, the last one padded. In the backward pass they do so for one strip of STRIP rows after the
 * other, and the partial sums wait in memory meanwhile: on CPUs few rows read side by side are what
 * the caches are good at. A column is one work-item's, in the order of the rows. column_sum_final
 * adds the partial sums up. y may be x or t; dt may be t. Local memory: with ROW_SUMS STRIP * LOCAL
 * vectors, see row_sums_end.
 * LOCAL, ROWS, STRIP: any >= 1. SUMS: 1 or 2; ROW_SUMS: 0 or 1. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "layerscale.cl needs LOCAL, ROWS and VW"
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void layerscale_forward(
    const ulong rows, const ulong cols, MAT_IN(x), MAT_IN(t), MAT_IN(ls), MAT_OUT(y))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            const vec scale = load_part(ROW(ls, 0) + c, left, 0);
            const vec branch = load_part(ROW(t, r) + c, left, 0);
            const vec residual = load_part(ROW(x, r) + c, left, 0);
            store_part(fma(scale, branch, residual), ROW(y, r) + c, left);
        }
    }
}

#ifndef SUMS
#define SUMS 1
#endif
#ifndef ROW_SUMS
#define ROW_SUMS 0 /* 0: row_sums is not touched */
#endif
#ifndef STRIP
#define STRIP (ROW_SUMS ? 8 : ROWS)
#endif

/* Forward: y = x + ls * t; db of the layer that made t = x w^T + b, or w x + b 1^T, is a sum of dt. */
kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void layerscale_backward(
    const ulong rows, const ulong cols, MAT_IN(t), MAT_IN(ls), MAT_IN(dy), MAT_OUT(dt),
    MAT_OUT(partial), MAT_OUT(row_sums))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    global float *dls_sum = ROW(partial, SUMS * get_group_id(0));
    global float *db_sum = ROW(partial, SUMS * get_group_id(0) + 1);
#if ROW_SUMS
    local vec own[STRIP * LOCAL];
#endif
    for (ulong top = first; top < last; top += STRIP) {
        const ulong bottom = min(top + STRIP, last);
#if ROW_SUMS
        row_sums_begin(own, STRIP);
#endif
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            const vec scale = load_part(ROW(ls, 0) + c, left, 0);
            vec dls = 0, db = 0;
            if (top > first) {
                dls = load_part(dls_sum + c, left, 0);
                if (SUMS == 2)
                    db = load_part(db_sum + c, left, 0);
            }
            for (ulong r = top; r < bottom; r++) {
                const vec d = load_part(ROW(dy, r) + c, left, 0), gradient = scale * d;
                dls = fma(load_part(ROW(t, r) + c, left, 0), d, dls);
                db += gradient;
                store_part(gradient, ROW(dt, r) + c, left);
#if ROW_SUMS
                row_sums_add(own, r - top, gradient);
#endif
            }
            store_part(dls, dls_sum + c, left);
            if (SUMS == 2)
                store_part(db, db_sum + c, left);
        }
#if ROW_SUMS
        row_sums_end(own, STRIP, bottom - top, ROW(row_sums, 0) + top);
#endif
    }
}
