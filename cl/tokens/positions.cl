/* Learned positions.
 *
 *     forward    y[r][c] = x[r][c] + p[r % tokens][c]; without HAS_X, p[r % tokens][c]
 *     backward   dp[q][c] = (sum over n < batch of dy[n * tokens + q][c]) + beta * dp[q][c]
 *
 * Row-wise, see rowwise.clh; backward over the rows of dp, samples in order. y may be x. With beta 0 dp is not
 * read. No local memory. */
#include "prelude/rowwise.clh"

#ifdef HAS_X
KERNEL_OF(LOCAL) positions_forward(ROWWISE_SIZES, const ulong tokens, MAT_IN(x), MAT_IN_RESTRICT(p),
    MAT_OUT(y))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            const vec own = GET(p, r % tokens, c);
            PUT(HAS_X ? GET(x, r, c) + own : own, y, r, c);
        }
}
#else

/* Forward: y[n * tokens + q] = x[n * tokens + q] + p[q]. */
KERNEL_OF(LOCAL) positions_backward(ROWWISE_SIZES, const ulong batch, const float beta,
    MAT_IN_RESTRICT(dy), MAT_OUT_RESTRICT(dp))
{
    FOR_ROWS(q)
        FOR_VECTORS(c) {
            vec sum = 0;
            for (ulong n = 0; n < batch; n++)
                sum += GET(dy, n * rows + q, c);
            if (beta != 0)
                sum = fma((vec)(beta), GET(dp, q, c), sum);
            PUT(sum, dp, q, c);
        }
}
#endif
