/* LayerScale with residual, per feature c: y = x + ls * t, and its gradients.
 *
 *     forward    y[r][c]  = x[r][c] + ls[c] * t[r][c]
 *     backward   dt[r][c] = ls[c] * dy[r][c]
 *                sum 0 of the columns: t[r][c] * dy[r][c];  sum 1, with SUMS = 2: dt[r][c]
 *                with ROW_SUMS  row_sums[r] = sum_c dt[r][c]
 *
 * Row-wise, see rowwise.clh; backward t is a source of narrow.clh. y may be x or t; dt may be t. Local memory: with ROW_SUMS STRIP * LOCAL
 * vectors, see row_sums_end. SUMS in the backward pass: 1 or 2; ROW_SUMS: 0 or 1. */
#include "prelude/narrow.clh"
#include "prelude/row_sums.clh"

KERNEL_OF(LOCAL) layerscale_forward(ROWWISE_SIZES, MAT_IN(x), MAT_IN(t), MAT_IN(ls), MAT_OUT(y))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT(fma(GET(ls, 0, c), GET(t, r, c), GET(x, r, c)), y, r, c);
}

#ifndef ROW_SUMS
#define ROW_SUMS 0 /* 0: row_sums is not touched */
#endif

/* Forward: y = x + ls * t; db of the layer that made t = x w^T + b, or w x + b 1^T, is a sum of dt. */
KERNEL_OF(LOCAL) layerscale_backward(ROWWISE_SIZES, MAT_SOURCE(t), MAT_IN(ls), MAT_IN(dy), MAT_OUT(dt),
    MAT_OUT(partial), MAT_OUT(row_sums))
{
    IF(ROW_SUMS)(local vec own[STRIP * LOCAL];)
    FOR_STRIPS {
        IF(ROW_SUMS)(row_sums_begin(own, STRIP);)
        FOR_VECTORS(c) {
            const vec scale = GET(ls, 0, c);
            vec dls = SUM_SO_FAR(0, c), db = SUM_SO_FAR(1, c);
            FOR_STRIP_ROWS(r) {
                const vec d = GET(dy, r, c), gradient = scale * d;
                dls = fma(GET_SOURCE(t, r, c), d, dls);
                db += gradient;
                PUT(gradient, dt, r, c);
                IF(ROW_SUMS)(row_sums_add(own, r - top, gradient);)
            }
            KEEP_SUM(dls, 0, c);
            KEEP_SUM(db, 1, c);
        }
        IF(ROW_SUMS)(row_sums_end(
            own, STRIP, min((ulong)STRIP, last_row - top), ROW(row_sums, 0) + top);)
    }
}
