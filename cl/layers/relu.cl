/* ReLU, y = max(x, 0), or with SIX ReLU6, y = min(max(x, 0), 6), with one bit an element kept for its gradient.
 *
 *     forward    y[r][c]  = x <= 0 ? 0 : x, so NaN stays NaN
 *                with KEEP bit c of row r of the mask = !(x <= 0), with SIX and !(x >= 6)
 *     backward   dx[r][c] = bit c of row r ? dy[r][c] : 0
 *                sum 0 of the columns, with SUMS = 1: dx[r][c]
 *     with       x = x[r][c];  with BIAS x[r][c] + b[c]; x in memory is unchanged
 *
 * Row-wise, see rowwise.clh; relu_mask.clh has the mask. dx is a result of narrow.clh. y may be x; dx may be dy. No local memory.
 * BIAS, KEEP, SIX, SUMS: 0 or 1. */
#include "prelude/narrow.clh"
#include "prelude/relu_mask.clh"
#if VW != 16 && VW != 8
#error "relu.cl needs VW 8 or 16"
#endif

#ifndef BIAS
#define BIAS 0 /* 0: b is not touched */
#endif
#ifndef KEEP
#define KEEP 0 /* 0: mask is not touched */
#endif
#ifndef SIX
#define SIX 0
#endif
#if SIX
#define SIX_OF(v, above) (in >= top ? (above) : (v))
#else
#define SIX_OF(v, above) (v)
#endif

KERNEL_OF(LOCAL) relu_forward(ROWWISE_SIZES, MAT_IN(b), MAT_IN(x), MAT_OUT(y), MAT_OUT(mask))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec in = GET(x, r, c);
            if (BIAS)
                in += GET(b, 0, c);
            const vec zero = 0, top = 6;
            if (KEEP)
                mask_store(SIX_OF(in, zero), ROW(mask, r), c, cols - c);
            PUT(SIX_OF(relu_of(in), top), y, r, c);
        }
}

/* Forward: y = max(x, 0). At 0 the slope is 0. */
KERNEL_OF(LOCAL) relu_backward(ROWWISE_SIZES, MAT_IN(dy), MAT_IN_RESTRICT(mask), MAT_RESULT(dx),
    MAT_OUT(partial))
{
    FOR_STRIPS
        FOR_VECTORS(c) {
            vec sum = SUM_SO_FAR(0, c);
            FOR_STRIP_ROWS(r) {
                const vec gradient = mask_apply(GET(dy, r, c), ROW(mask, r), c);
                sum += gradient;
                PUT_RESULT(gradient, dx, r, c);
            }
            KEEP_SUM(sum, 0, c);
        }
}
