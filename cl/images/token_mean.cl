/* Mean over the tokens of each sample.
 *
 *     forward    y[n][c] = (sum over p < tokens of x[n * tokens + p][c]) * scale
 *     with       scale = 1 / tokens; NaN for no tokens
 *
 * A group takes a sample and LOCAL vectors of columns (PART_ROW in rowwise.clh), the last one padded.
 * Tokens are added up in order.
 *
 *     backward   dx[r][c] = dy[r / tokens][c] * scale
 *
 * The backward pass is row-wise, see rowwise.clh. No local memory. */
#include "prelude/rowwise.clh"

KERNEL_OF(LOCAL) token_mean_forward(const ulong tokens, const ulong cols, const float scale,
    MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(y))
{
    const ulong n = PART_ROW(cols), c = PART_COLUMN(cols);
    if (c >= cols)
        return;
    vec sum = 0;
    for (ulong r = n * tokens; r < (n + 1) * tokens; r++)
        sum += load_part(ROW(x, r) + c, cols - c, 0);
    store_part(sum * scale, ROW(y, n) + c, cols - c);
}

/* Forward: y[n] = scale * sum_p x[n * tokens + p]. */
KERNEL_OF(LOCAL) token_mean_backward(ROWWISE_SIZES, const ulong tokens, const float scale,
    MAT_IN_RESTRICT(dy), MAT_OUT_RESTRICT(dx))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT(GET(dy, r / tokens, c) * scale, dx, r, c);
}
