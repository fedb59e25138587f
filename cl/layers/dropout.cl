/* Dropout.
 *
 *     y[r][c] = bits < threshold ? 0 : scale * x[r][c]
 *     with      bits = 32 random bits of (seed, first_row + r, c), see draw.clh
 *               with PATH those of (seed, first_row + r / each, 0): whole samples of `each` rows
 *
 * Row-wise, see rowwise.clh. y may be x. Columns that differ by 2^32 share their bits. No local memory.
 * VW: 4, 8 or 16. PATH: 0 or 1; 0 does not read `each`. */
#include "prelude/rowwise.clh"
#include "prelude/draw.clh"
typedef JOIN(uint, VW) uvec;
#ifndef PATH
#define PATH 0
#endif

KERNEL_OF(LOCAL) dropout(ROWWISE_SIZES, const ulong seed, const ulong first_row, const ulong each,
    const uint threshold, const float scale, MAT_IN(x), MAT_OUT(y))
{
    const vec zero = 0;
    const uvec lanes = JOIN(as_uint, VW)(LANES_OF_VEC), most = threshold;
    FOR_ROWS(r) {
        const ulong row = first_row + (PATH ? r / each : r);
        const uint sample = draw_sample(seed, row), key = draw_key(row);
        FOR_VECTORS(c) {
            const uvec bits = JOIN(draw, VW)(PATH ? (uvec)(0) : (uint)c + lanes, key, sample);
            const vec kept = scale * GET(x, r, c);
            PUT(bits < most ? zero : kept, y, r, c);
        }
    }
}
