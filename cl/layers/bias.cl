/* Bias additions, in place.
 *
 *     bias_rows     y[r][c] += b[c]
 *     bias_tokens   y[r][c] += b[r mod tokens]
 *
 * Row-wise, see rowwise.clh. No local memory. */
#include "prelude/rowwise.clh"

KERNEL_OF(LOCAL) bias_rows(ROWWISE_SIZES, MAT_IN_RESTRICT(b), MAT_OUT_RESTRICT(y))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT(GET(y, r, c) + GET(b, 0, c), y, r, c);
}

KERNEL_OF(LOCAL) bias_tokens(ROWWISE_SIZES, const ulong tokens, MAT_IN_RESTRICT(b),
    MAT_OUT_RESTRICT(y))
{
    FOR_ROWS(r) {
        const float bias = AT(b, 0, r % tokens);
        FOR_VECTORS(c)
            PUT(GET(y, r, c) + bias, y, r, c);
    }
}
