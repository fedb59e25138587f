/* y[r][c] = alpha * a[r][c];  with TWO fma(beta, b[r][c], alpha * a[r][c]).
 *
 * Row-wise, see rowwise.clh. y may be a or b. No local memory. TWO: 0 or 1. */
#include "prelude/rowwise.clh"
#ifndef TWO
#error "add.cl needs TWO" /* 0: b is not touched */
#endif

KERNEL_OF(LOCAL) add(ROWWISE_SIZES, const float alpha, const float beta, MAT_IN(a), MAT_IN(b),
    MAT_OUT(y))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec sum = alpha * GET(a, r, c);
            if (TWO)
                sum = fma((vec)(beta), GET(b, r, c), sum);
            PUT(sum, y, r, c);
        }
}
