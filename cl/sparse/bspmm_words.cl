/* The words of kept rows that bspmm_nt_bf16_vector.cl multiplies, in the order of the lists of bspmm_lists.cl.
 *
 *     words[n * keep * BR * W + e * W + w] = columns 2 w and 2 w + 1 of the kept row of entry e of sample n, as
 *                                            a pair of bf16,
 * W = (BC + 1) / 2; a column that the block does not have is 0. Values are stored as VALUES.
 *
 * Group g takes the lists of segment g % segments of sample g / segments. VW 16 where 16 divides BC, else 1. No
 * local memory. */
#include "prelude/pairs.clh"
#include "sparse/bsr_values.clh"
#if !defined(BC) || !defined(BR)
#error "bspmm_words.cl needs BC and BR"
#endif
#if VW != 1 && (VW != 16 || BC % 16 != 0)
#error "VW must be 1, or 16 where 16 divides BC"
#endif
#define W ((BC + 1) / 2)

/* Columns c to c + 15 of the values from `first` on, zero from BC on. */
static inline float16 columns16(
    global const stored *block, const uint first, const float scale, const uint c)
{
#if VW == 16
    if (c < BC)
        return WIDEN(LOAD_CODES(block, first + c), scale);
#endif
    float x[16];
    for (uint i = 0; i < 16; i++)
        x[i] = c + i < BC ? widen(CODE_AT(block, first + c + i), scale) : 0.0f;
    return vload16(0, x);
}

KERNEL_OF(1) bspmm_words(const ulong block_cols, const ulong segments, const ulong keep,
    REGION_IN(stored, values), IF(SCALED)(REGION_IN(ushort, scales), ) REGION_IN(uint, starts),
    REGION_IN(uint2, entries), REGION_OUT(uint, words))
{
    const ulong n = get_group_id(0) / segments;
    values += values_offset + n * keep * STORED_OF(BR * BC);
    IF(SCALED)(scales += scales_offset + n * keep;)
    starts += starts_offset + get_group_id(0) * (block_cols + 1);
    entries += entries_offset + n * keep * BR;
    words += words_offset + n * keep * BR * W;
    const uint end = starts[block_cols];
    for (uint e = starts[0]; e < end; e++) {
        const uint block = entries[e].y / BR, first = entries[e].y % BR * BC;
        global const stored *from = values + (ulong)block * STORED_OF(BR * BC);
        for (uint w = 0; w < W; w += 16) {
            const uint16 all = round32(columns16(from, first, SCALE(block), 2 * w),
                columns16(from, first, SCALE(block), 2 * w + 16));
            global uint *to = words + (ulong)e * W + w;
            if (w + 16 <= W) {
                *(global uint16_anywhere *)to = all;
                continue;
            }
            uint part[16];
            vstore16(all, 0, part);
            for (uint i = 0; i < W - w; i++)
                to[i] = part[i];
        }
    }
}
