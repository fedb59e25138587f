/* Affine in front of a linear layer, h = n * w^T, where n = alpha * x + beta was not kept.
 *
 *     weights    scaled[o][c] = alpha[c] * w[o][c]                 then dx = dh * scaled
 *     centre     x[r][c] = x[r][c] - centre[c], in place
 *     backward   sum 0 of the columns: w[o][c] * p;  sum 1: w[o][c] * sums[o]
 *                dw[o][c] = alpha[c] * dw[o][c] + (beta[c] + alpha[c] * centre[c]) * sums[o]
 *
 * On entry dw = dh^T * (x - centre) and sums[o] = the sum of column o of dh, so p = (dh^T * x)[o][c] =
 * dw[o][c] + centre[c] * sums[o]. The sums of the columns are dalpha and dbeta.
 *
 * Row-wise, see rowwise.clh. scaled may be w. No local memory. SUMS 2 in the backward pass. */
#include "prelude/rowwise.clh"

KERNEL_OF(LOCAL) affine_weights(ROWWISE_SIZES, MAT_IN(alpha), MAT_IN(w), MAT_OUT(scaled))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT(GET(alpha, 0, c) * GET(w, r, c), scaled, r, c);
}

KERNEL_OF(LOCAL) affine_centre(ROWWISE_SIZES, MAT_IN_RESTRICT(centre), MAT_OUT_RESTRICT(x))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT(GET(x, r, c) - GET(centre, 0, c), x, r, c);
}

/* Forward: h = (alpha * x + beta) * w^T. */
KERNEL_OF(LOCAL) affine_product(ROWWISE_SIZES, MAT_IN_RESTRICT(w), MAT_IN_RESTRICT(alpha),
    MAT_IN_RESTRICT(beta), MAT_IN_RESTRICT(centre), MAT_IN_RESTRICT(sums), MAT_OUT_RESTRICT(dw),
    MAT_OUT_RESTRICT(partial))
{
    FOR_STRIPS
        FOR_VECTORS(c) {
            const vec a = GET(alpha, 0, c), middle = GET(centre, 0, c);
            const vec shift = fma(a, middle, GET(beta, 0, c));
            vec dalpha = SUM_SO_FAR(0, c), dbeta = SUM_SO_FAR(1, c);
            FOR_STRIP_ROWS(o) {
                const float sum = AT(sums, 0, o);
                const vec weight = GET(w, o, c), product = GET(dw, o, c);
                dalpha = fma(weight, fma(middle, (vec)(sum), product), dalpha);
                dbeta = fma(weight, (vec)(sum), dbeta);
                PUT(fma(a, product, shift * sum), dw, o, c);
            }
            KEEP_SUM(dalpha, 0, c);
            KEEP_SUM(dbeta, 1, c);
        }
}
