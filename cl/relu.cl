/* ReLU, y = max(x, 0), with one bit an element kept for its gradient.
 *
 *     forward    y[r][c]  = x <= 0 ? 0 : x, so NaN stays NaN
 *                with KEEP bit c of row r of the mask = !(x <= 0)
 *     backward   dx[r][c] = bit c of row r ? dy[r][c] : 0
 *                sum 0 of the columns, with SUMS = 1: dx[r][c]
 *     with       x = x[r][c];  with BIAS x[r][c] + b[c], x itself stays
 *
 * Bit c of a row is bit c % 8 of its byte c / 8. Rows are padded with zeros to whole elements of the
 * matrix `mask`, 4 bytes:
 *
 *     byte 0: | 7 6 5 4 3 2 1 0 |    byte 1: | 15 14 13 12 11 10 9 8 |   ...
 *
 * Row-wise, see rowwise.clh. y may be x; dx may be dy. No local memory.
 * VW: 8 or 16, so that no two work-items share a byte. BIAS, KEEP, SUMS: 0 or 1. */
#if VW == 16
typedef ushort mask_bits; /* of a vector */
#define ANY_LANE(v) ANY8((v).lo | (v).hi)
#elif VW == 8
typedef uchar mask_bits;
#define ANY_LANE(v) ANY8(v)
#else
#error "relu.cl needs VW 8 or 16"
#endif
#define ANY8(v)   ANY4((v).lo | (v).hi)
#define ANY4(v)   (((v).s0 | (v).s2) | ((v).s1 | (v).s3))
#define LANE_BITS ((ivec)(1) << LANES_OF_VEC)

#ifndef BIAS
#define BIAS 0 /* 0: b is not touched */
#endif
#ifndef KEEP
#define KEEP 0 /* 0: mask is not touched */
#endif

/* Puts the bits of the first `left` lanes at p; behind the last vector of the row, zeros up to its
 * `end`. */
static inline void store_bits(
    const ivec bits, const ulong left, global uchar *p, const global uchar *end)
{
    const int there = left < VW ? (1 << left) - 1 : -1;
    *(global mask_bits *)p = (mask_bits)(ANY_LANE(bits) & there);
    if (left <= VW)
        for (p += sizeof(mask_bits); p < end; p++)
            *p = 0;
}

ROWWISE_KERNEL relu_forward(
    ROWWISE_SIZES, MAT_IN(b), MAT_IN(x), MAT_OUT(y), MAT_OUT(mask))
{
    const vec zero = 0;
    const ivec none = 0;
    FOR_ROWS(r) {
        global uchar *bytes = (global uchar *)ROW(mask, r);
        FOR_VECTORS(c) {
            vec in = GET(x, r, c);
            if (BIAS)
                in += GET(b, 0, c);
            if (KEEP)
                store_bits(in <= zero ? none : LANE_BITS, cols - c, bytes + c / 8,
                    bytes + (cols + 31) / 32 * 4);
            PUT(in <= zero ? zero : in, y, r, c);
        }
    }
}

/* Forward: y = max(x, 0). At 0 the slope is 0. */
ROWWISE_KERNEL relu_backward(
    ROWWISE_SIZES, MAT_IN(dy), MAT_IN_RESTRICT(mask), MAT_OUT(dx), MAT_OUT(partial))
{
    const vec zero = 0;
    const ivec none = 0;
    FOR_STRIPS
        FOR_VECTORS(c) {
            vec sum = SUM_SO_FAR(0, c);
            FOR_STRIP_ROWS(r) {
                const global uchar *bytes = (const global uchar *)ROW(mask, r);
                const int bits = *(const global mask_bits *)(bytes + c / 8);
                const vec d = GET(dy, r, c);
                const vec gradient = ((ivec)(bits)&LANE_BITS) == none ? zero : d;
                sum += gradient;
                PUT(gradient, dx, r, c);
            }
            KEEP_SUM(sum, 0, c);
        }
}
