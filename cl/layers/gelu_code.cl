/* GELU with its derivative kept as codes of BITS bits: the number of the nearest of 2^BITS levels.
 *
 *     gelu_code_forward    g = h * Phi(h);  code = number of the level nearest to the slope
 *                          Phi(h) + h * phi(h); ties go to the lower one; 0 where h is NaN;
 *                          other activations: activation.clh; with BIAS h[r][c] + b[c] takes the place of h
 *     gelu_code_backward   dh = dg * levels[code];  sum 0 of the columns, with SUMS = 1: dh
 *
 * Code c of a row is BITS bits of byte c * BITS / 8, from bit c * BITS mod 8 up. Rows are padded
 * with zeros to whole elements of the matrix `codes`, 4 bytes:
 *
 *     BITS = 2    byte 0: | c3 c2 c1 c0 |    byte 1: | c7 c6 c5 c4 |   ...
 *
 * Row-wise, see rowwise.clh; h is a source, g and dh are results of narrow.clh. g may be h; dh may be dg. Local memory: LEVELS floats.
 * BITS: 2, 4 or 8; VW: 4, 8 or 16; BIAS, SUMS: 0 or 1. */
#include "prelude/narrow.clh"
#include "layers/activation.clh"
#include "layers/gelu_code.clh"
#ifndef BITS
#error "gelu_code.cl needs BITS"
#endif
#define LEVELS    (1 << BITS)
#define MASK      (LEVELS - 1)
#define PER_BYTE  (8 / BITS)
#define ROW_BYTES ((cols * BITS + 31) / 32 * 4)
#define COARSE    (LEVELS > 16 ? LEVELS / 16 : 1) /* every COARSE-th border is tried first */

/* BYTES: the bytes of a vector of codes; PACK makes them. */
#if VW * BITS == 8
#define BYTES              1
#define TO_BYTES(v)        ((uchar)(v))
#define STORE_BYTES(v, at) (*(at) = (v))
#else
#if VW * BITS == 16
#define BYTES 2
#elif VW * BITS == 32
#define BYTES 4
#elif VW * BITS == 64
#define BYTES 8
#elif VW * BITS == 128
#define BYTES 16
#else
#error "VW * BITS must be 8, 16, 32, 64 or 128"
#endif
#define TO_BYTES(v)        JOIN(convert_uchar, BYTES)(v)
#define STORE_BYTES(v, at) JOIN(vstore, BYTES)(v, 0, at)
#endif
#define PAIRS(v, bits) ((v).even | (v).odd << (bits))
#if BITS == 8
#define PACK(codes) TO_BYTES(codes)
#elif BITS == 4
#define PACK(codes) TO_BYTES(PAIRS(codes, 4))
#else
#define PACK(codes) TO_BYTES(PAIRS(PAIRS(codes, 2), 4))
#endif

/* The border between the codes i and i + 1. */
#define BORDER(i) (0.5f * (gelu_levels[i] + gelu_levels[(i) + 1]))

/* Fills a table in local memory, which is faster than constant memory if each lane looks up a different
 * element. */
#define FILL(table, count, value)                                                                  \
    for (uint i = get_local_id(0); i < (count); i += LOCAL)                                        \
        table[i] = (value);                                                                        \
    barrier(CLK_LOCAL_MEM_FENCE)

/* The slope's code is one of 2 * half_way codes from `code` on: returns the first code of its half. */
static inline ivec halve(
    const ivec code, const int half_way, const vec slope, local const float *borders)
{
    int from[VW];
    float border[VW];
    TO_ARRAY(code, from);
    for (int lane = 0; lane < VW; lane++)
        border[lane] = borders[from[lane] + half_way - 1];
    return slope > FROM_ARRAY(border) ? code + half_way : code;
}

/* The codes of the slopes: the number of borders below each. All comparisons are false for NaN. */
static inline ivec encode(const vec slope, local const float *borders)
{
    const ivec zero = 0;
    ivec code = 0;
    for (int i = COARSE - 1; i < LEVELS - 1; i += COARSE)
        code += slope > (vec)(BORDER(i)) ? (ivec)(COARSE) : zero;
#if BITS == 8
    code = halve(code, 8, slope, borders);
    code = halve(code, 4, slope, borders);
    code = halve(code, 2, slope, borders);
    code = halve(code, 1, slope, borders);
#endif
    return code;
}

/* Writes the first `left` codes to p; after the last code of the row, zeros up to the row's `end`. */
static inline void store_codes(
    const ivec codes, const ulong left, global uchar *p, const global uchar *end)
{
    if (left > VW) {
        STORE_BYTES(PACK(codes), p);
        return;
    }
    const ivec lane = LANES_OF_VEC, zero = 0;
    uchar byte[BYTES];
    const ivec kept = lane < (ivec)((int)left) ? codes : zero;
    STORE_BYTES(PACK(kept), byte);
    for (int i = 0; p + i < end; i++)
        p[i] = i < BYTES ? byte[i] : 0;
}

/* The levels of the first `left` codes at p. */
static inline vec decode(const global uchar *p, const ulong left, local const float *levels)
{
    float slope[VW];
    uint byte[BYTES];
    for (int i = 0; i < BYTES; i++)
        byte[i] = left >= VW || i * PER_BYTE < (int)left ? p[i] : 0;
    for (int lane = 0; lane < VW; lane++)
        slope[lane] = levels[byte[lane / PER_BYTE] >> (lane % PER_BYTE * BITS) & MASK];
    return FROM_ARRAY(slope);
}

#ifndef BIAS
#define BIAS 0 /* 0: b is not touched */
#endif

KERNEL_OF(LOCAL) gelu_code_forward(ROWWISE_SIZES, MAT_IN_RESTRICT(b), MAT_SOURCE(h), MAT_RESULT(g),
    MAT_OUT_RESTRICT(codes))
{
    local float borders[LEVELS];
    FILL(borders, LEVELS - 1, BORDER(i));
    FOR_ROWS(r) {
        global uchar *row = (global uchar *)ROW(codes, r);
        FOR_VECTORS(c) {
            vec in = GET_SOURCE(h, r, c), slope;
            if (BIAS)
                in += GET(b, 0, c);
            PUT_RESULT(activation_with_slope(in, &slope), g, r, c);
            store_codes(encode(slope, borders), cols - c, row + c / PER_BYTE, row + ROW_BYTES);
        }
    }
}

/* Forward: g = h * Phi(h), so dh = dg * slope, with the slope read from its code. */
KERNEL_OF(LOCAL) gelu_code_backward(ROWWISE_SIZES, MAT_IN(dg), MAT_RESULT(dh), MAT_IN_RESTRICT(codes),
    MAT_OUT(partial))
{
    local float levels[LEVELS];
    FILL(levels, LEVELS, gelu_levels[i]);
    FOR_STRIPS
        FOR_VECTORS(c) {
            vec sum = SUM_SO_FAR(0, c);
            FOR_STRIP_ROWS(r) {
                const global uchar *row = (const global uchar *)ROW(codes, r);
                const vec slope = decode(row + c / PER_BYTE, cols - c, levels);
                const vec gradient = GET(dg, r, c) * slope;
                sum += gradient;
                PUT_RESULT(gradient, dh, r, c);
            }
            KEEP_SUM(sum, 0, c);
        }
}
