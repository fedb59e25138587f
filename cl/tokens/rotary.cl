/* Rotary positions.
 *
 *     table    table[q][i] = cos t,  table[q][half + i] = sin t,  t = (from + q) * f[i], i < half
 *              f[i] in turns is first * ratio^i; both factors are 64-bit fractions of 1, so that the product wraps
 *              to a part of a turn without error
 *              or f[i] = first from the 32-bit words 2 i (low) and 2 i + 1 of `turns`, and both times factor: table_of
 *     turn     of head h of row r, with q = r % tokens, a = x[h * head_cols + i], b = x[h * head_cols + half + i]:
 *                  y[h * head_cols + i]        = a * cos t - b * sin t
 *                  y[h * head_cols + half + i] = b * cos t + a * sin t;    BACK turns by -t
 *              ADJACENT: the columns 2 i and 2 i + 1 of a head in place of i and half + i
 *
 * table, table_of: a work-item takes an element i, and all q. turn: row-wise, see rowwise.clh, over (rows * heads) x half.
 * y may be x. No local memory. BACK, ADJACENT: 0 or 1. */
#include "prelude/rowwise.clh"

#ifndef BACK
/* (from + q) turns, of half a turn, in [-1, 1) */
static inline float angle_of(const ulong q, const ulong turns)
{
    return (float)(long)(q * turns) * 0x1p-63f;
}

KERNEL_OF(LOCAL) rotary_table(
    ROWWISE_SIZES, const ulong from, const ulong first, const ulong ratio, MAT_OUT(table))
{
    FOR_ROWS(q)
        for (ulong i = get_local_id(0); i < cols; i += LOCAL) {
            ulong turns = first, power = ratio;
            for (ulong left = i; left > 0; left /= 2) {
                if (left % 2 == 1)
                    turns = mul_hi(turns, power);
                power = mul_hi(power, power);
            }
            const float angle = angle_of(from + q, turns);
            AT(table, q, i) = cospi(angle);
            AT(table, q, cols + i) = sinpi(angle);
        }
}

KERNEL_OF(LOCAL) rotary_table_of(
    ROWWISE_SIZES, const ulong from, const float factor, MAT_IN(turns), MAT_OUT(table))
{
    FOR_ROWS(q)
        for (ulong i = get_local_id(0); i < cols; i += LOCAL) {
            global const uint *words = (global const uint *)ROW(turns, 0) + 2 * i;
            const float angle = angle_of(from + q, (ulong)words[1] << 32 | words[0]);
            AT(table, q, i) = factor * cospi(angle);
            AT(table, q, cols + i) = factor * sinpi(angle);
        }
}
#else

#define HEAD(x, r, h) (ROW(x, r) + (h) * head_cols)

KERNEL_OF(LOCAL) rotary_turn(LANE_SIZES, const ulong heads, const ulong head_cols, const ulong tokens,
    MAT_IN_RESTRICT(table), MAT_IN(x), MAT_OUT(y))
{
    FOR_STRIPS
        FOR_LANE_VECTORS(c)
            FOR_SLICE_ROWS(k) {
                const ulong r = k / heads, h = k % heads;
#if ADJACENT
                for (ulong i = c; i < min(c + VW, cols); i++) {
                    const float cosine = AT(table, r % tokens, i), turned = AT(table, r % tokens, cols + i);
                    const float sine = BACK ? -turned : turned;
                    const float a = HEAD(x, r, h)[2 * i], b = HEAD(x, r, h)[2 * i + 1];
                    HEAD(y, r, h)[2 * i] = fma(a, cosine, -b * sine);
                    HEAD(y, r, h)[2 * i + 1] = fma(b, cosine, a * sine);
                }
#else
                const ulong left = cols - c;
                const vec cosine = GET(table, r % tokens, c);
                const vec turned = load_part(ROW(table, r % tokens) + cols + c, left, 0);
                const vec sine = BACK ? -turned : turned;
                const vec a = load_part(HEAD(x, r, h) + c, left, 0);
                const vec b = load_part(HEAD(x, r, h) + cols + c, left, 0);
                store_part(fma(a, cosine, -b * sine), HEAD(y, r, h) + c, left);
                store_part(fma(b, cosine, a * sine), HEAD(y, r, h) + cols + c, left);
#endif
            }
}
#endif
