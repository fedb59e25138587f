/* Dropout.
 *
 *     y[r][c] = bits < threshold ? 0 : scale * x[r][c]
 *     with      bits = 32 random bits of (seed, first_row + r, c), see draw.clh
 *
 * Row-wise, see rowwise.clh. y may be x. Columns that differ by 2^32 share their bits. No local memory.
 * VW: 4, 8 or 16. */
#include "prelude/rowwise.clh"
#include "prelude/draw.clh"
typedef JOIN(uint, VW) uvec;

KERNEL_OF(LOCAL) dropout(ROWWISE_SIZES, const ulong seed, const ulong first_row, const uint threshold,
    const float scale, MAT_IN(x), MAT_OUT(y))
{
    const vec zero = 0;
    const uvec lanes = JOIN(as_uint, VW)(LANES_OF_VEC), most = threshold;
    FOR_ROWS(r) {
        const ulong row = first_row + r;
        const uint sample = draw_sample(seed, row), key = draw_key(row);
        FOR_VECTORS(c) {
            const uvec bits = JOIN(draw, VW)((uint)c + lanes, key, sample);
            const vec kept = scale * GET(x, r, c);
            PUT(bits < most ? zero : kept, y, r, c);
        }
    }
}
