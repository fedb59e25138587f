/* LayerScale after a linear layer, y = x + ls * t, where t = g * w^T + b was not kept.
 *
 *     weights    scaled[o][i] = ls[o] * w[o][i]                 then dg = dy * scaled
 *     backward   dls[o] = sum_i w[o][i] * dw[o][i] + b[o] * db[o]     (+ beta * dls[o])
 *                dw[o][i] = ls[o] * dw[o][i], db[o] = ls[o] * db[o]
 *
 * On entry dw = dy^T * g and db = the sum of the rows of dy. With beta = 0, dls is not read.
 *
 * Row-wise, see rowwise.clh; backward: a team of TEAM work-items shares a row. scaled may be w.
 * Local memory: LOCAL floats where TEAM > 1. */
#include "prelude/rowwise.clh"

#ifndef TEAM
KERNEL_OF(LOCAL) layerscale_weights(ROWWISE_SIZES, MAT_IN(ls), MAT_IN(w), MAT_OUT(scaled))
{
    FOR_ROWS(o)
        FOR_VECTORS(c)
            PUT(AT(ls, 0, o) * GET(w, o, c), scaled, o, c);
}
#else
/* Forward: y = x + ls * (g * w^T + b). */
KERNEL_OF(LOCAL) layerscale_product(ROWWISE_SIZES, const float beta, MAT_IN_RESTRICT(w),
    MAT_IN_RESTRICT(b), MAT_IN_RESTRICT(ls), MAT_OUT_RESTRICT(dls), MAT_OUT_RESTRICT(dw),
    MAT_OUT_RESTRICT(db))
{
    local float part[LOCAL];
    FOR_TEAM_ROWS(o) {
        vec own = 0;
        FOR_TEAM_VECTORS(o, c) {
            const vec product = GET(dw, o, c);
            own = fma(GET(w, o, c), product, own);
            PUT(AT(ls, 0, o) * product, dw, o, c);
        }
        const float total = team_sum(part, SUM(own));
        if (TEAM_LEADS(o)) {
            const float sum = fma(AT(b, 0, o), AT(db, 0, o), total);
            AT(dls, 0, o) = beta != 0 ? fma(beta, AT(dls, 0, o), sum) : sum;
            AT(db, 0, o) *= AT(ls, 0, o);
        }
    }
}
#endif
