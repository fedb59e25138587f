/* Affine, per feature c: y = alpha * x + beta, and its gradients.
 *
 *     forward    y[r][c]  = alpha[c] * x[r][c] + beta[c]
 *     backward   dx[r][c] = alpha[c] * dy[r][c] (+ dx_beta * dx[r][c] unless dx_beta is 0)
 *                sum 0 of the columns: x[r][c] * dy[r][c];  sum 1: dy[r][c]
 *
 * Row-wise, see rowwise.clh; x is a source, y a result of narrow.clh. y may be x; dx may be dy, if dx_beta is 0. No local memory.
 * SUMS 2 in the backward pass. */
#include "prelude/narrow.clh"

KERNEL_OF(LOCAL) affine_forward(ROWWISE_SIZES, MAT_SOURCE(x), MAT_IN(alpha), MAT_IN(beta), MAT_RESULT(y))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT_RESULT(fma(GET(alpha, 0, c), GET_SOURCE(x, r, c), GET(beta, 0, c)), y, r, c);
}

/* Forward: y = alpha * x + beta. */
KERNEL_OF(LOCAL) affine_backward(ROWWISE_SIZES, const float dx_beta, MAT_SOURCE(x), MAT_IN(alpha),
    MAT_IN(dy), MAT_OUT(dx), MAT_OUT(partial))
{
    FOR_STRIPS
        FOR_VECTORS(c) {
            const vec a = GET(alpha, 0, c);
            vec dalpha = SUM_SO_FAR(0, c), dbeta = SUM_SO_FAR(1, c);
            FOR_STRIP_ROWS(r) {
                const vec d = GET(dy, r, c);
                dalpha = fma(GET_SOURCE(x, r, c), d, dalpha);
                dbeta += d;
                PUT(dx_beta != 0 ? fma(a, d, dx_beta * GET(dx, r, c)) : a * d, dx, r, c);
            }
            KEEP_SUM(dalpha, 0, c);
            KEEP_SUM(dbeta, 1, c);
        }
}
