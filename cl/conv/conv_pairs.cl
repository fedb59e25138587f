/* Pairs of channels, rounded to bf16 (pairs.clh): to[r][c] = the pair (from[r][2 c], from[r][2 c + 1]), 0 <= c <
 * (cols + 1) / 2; an odd end is padded with zero. Group g takes the rows [g * run, (g + 1) * run). No local
 * memory. */
#include "prelude/pairs.clh"

KERNEL_OF(1) conv_pairs(const ulong rows, const uint cols, const ulong run, MAT_IN_RESTRICT(from),
    REGION_OUT(uint, to))
{
    const ulong first = get_group_id(0) * run, end = min(first + run, rows);
    const uint words = (cols + 1) / 2;
    to += to_offset + first * words;
    for (ulong r = first; r < end; r++, to += words) {
        global const float *row = ROW(from, r);
        uint c = 0;
        for (; c + 32 <= cols; c += 32)
            *(global uint16_anywhere *)(to + c / 2) = round32(LOAD16(row + c), LOAD16(row + c + 16));
        for (; c < cols; c += 2)
            to[c / 2] = round_pair(row[c], c + 1 < cols ? row[c + 1] : 0.0f);
    }
}
