/* prune_select for CPUs: mask[n * blocks + i] = 1 for the `keep` best scores of sample n, else 0.
 *
 * The order is as in prune_select.cl: NaN first, then the larger score, then the lower index.
 * 1 <= keep < blocks. One work-item a group; group n takes sample n. The key T of the keep-th best
 * score is found from its highest bit down, by counting the keys above a bound, 16 keys at a time.
 * First the upper halves of all keys, then the lower halves of the keys with T's upper half, are
 * stored as shorts (`digits`), which stay in the first-level cache. Counting 32 times costs less than
 * two histograms.
 *
 *     key          upper half of T   digits of the lower half
 *     above T's    >                 32767: counted every time
 *     like T's     =                 the lower half, less 32768
 *     below T's    <                 -32768: never counted
 *
 * digits[n][ceil(blocks / 64) * 64]: scratch. With THRESHOLD, thresholds[n] = the best score that is
 * not kept. No local memory. */
#include "prune/prune_key.clh"
#ifndef THRESHOLD
#error "prune_select_vector.cl needs THRESHOLD"
#endif

/* vstore16 of bytes is sixteen stores on PoCL. */
typedef uchar16 __attribute__((aligned(1))) uchar16_anywhere;

/* key_of of 16 scores. */
static inline uint16 keys_of(const float16 scores)
{
    const uint16 bits = as_uint16(scores);
    uint16 keys = as_int16(bits) < (int16)(0) ? ~bits : bits | (uint16)(0x80000000u);
    keys = scores == (float16)(0.0f) ? (uint16)(0x80000000u) : keys;
    return isnan(scores) ? (uint16)(0xffffffffu) : keys;
}

/* The 16 scores from `first` on. Missing ones are -Inf, the lowest score; they do not change T, because
 * keep < blocks. */
static inline float16 scores_from(global const float *scores, const ulong first, const ulong blocks)
{
    if (first + 16 <= blocks)
        return LOAD16(scores + first);
    float tail[16];
    for (uint i = 0; i < 16; i++)
        tail[i] = first + i < blocks ? scores[first + i] : -INFINITY;
    return vload16(0, tail);
}

/* Unsigned halves of keys as shorts of the same order. */
static inline short16 signed_digits(const uint16 halves)
{
    return as_short16(convert_ushort16(halves) ^ (ushort16)(0x8000));
}

/* The largest d for which at least `wanted` digits, in `runs` runs of 64, are d - 32768 or more.
 * Four sums run in parallel, to hide the latency of additions. */
static inline uint best_digit(global const short *digits, const ulong runs, const uint wanted)
{
    uint digit = 0;
    for (uint bit = 0x8000u; bit != 0; bit >>= 1) {
        const short16 below = (short16)((short)((int)(digit | bit) - 0x8000 - 1));
        uint count = 0;
        for (ulong run = 0; run < runs;) {
            const ulong stop = min(run + 0x1fff, runs); /* the four totals add up to at most 32764 */
            short16 total[4] = {(short16)(0), (short16)(0), (short16)(0), (short16)(0)};
            for (; run < stop; run++)
                UNROLLED(i, 4)
                    total[i] -= ((global const short16 *)digits)[run * 4 + i] > below;
            const int16 lanes = convert_int16(total[0] + total[1] + total[2] + total[3]);
            const int8 eight = lanes.lo + lanes.hi;
            const int4 four = eight.lo + eight.hi;
            count += (uint)(four.s0 + four.s1 + four.s2 + four.s3);
        }
        if (count >= wanted)
            digit |= bit;
    }
    return digit;
}

KERNEL_OF(1) prune_select_vector(const ulong blocks, const uint keep, REGION_IN(float, scores),
    REGION_OUT(uchar, mask),
    REGION_OUT(short, digits) IF(THRESHOLD)(COMMA REGION_OUT(float, thresholds)))
{
    const ulong runs = (blocks + 63) / 64;
    scores += scores_offset + get_group_id(0) * blocks;
    mask += mask_offset + get_group_id(0) * blocks;
    digits += digits_offset + get_group_id(0) * runs * 64;
    global short16 *vectors = (global short16 *)digits;

    for (ulong v = 0; v < runs * 4; v++)
        vectors[v] = signed_digits(keys_of(scores_from(scores, v * 16, blocks)) >> 16);
    const uint upper = best_digit(digits, runs, keep);
    for (ulong v = 0; v < runs * 4; v++) {
        const uint16 keys = keys_of(scores_from(scores, v * 16, blocks));
        vectors[v] = signed_digits(min(max(keys, upper << 16), upper << 16 | 0xffff) & 0xffff);
    }
    const uint t = upper << 16 | best_digit(digits, runs, keep);

    uint16 best_dropped = (uint16)(0);
    int16 above = (int16)(0);
    uint kept = 0;
    for (ulong i = 0; i < blocks; i += 16) {
        const uint16 keys = keys_of(scores_from(scores, i, blocks));
        const int16 better = keys >= (uint16)(t);
        best_dropped = max(best_dropped, better ? (uint16)(0) : keys);
        if (i + 16 <= blocks) {
            *(global uchar16_anywhere *)(mask + i) = as_uchar16(convert_char16(-better));
            above -= better;
        } else {
            for (ulong k = i; k < blocks; k++) {
                mask[k] = key_of(scores[k]) >= t;
                kept += mask[k];
            }
        }
    }
    int lanes[16];
    uint best[16];
    vstore16(above, 0, lanes);
    vstore16(best_dropped, 0, best);
    for (uint lane = 0; lane < 16; lane++) {
        kept += (uint)lanes[lane];
        best[0] = max(best[0], best[lane]);
    }
    /* Of the blocks with key T the first ones are kept: drops the last ones. */
    for (ulong i = blocks; kept > keep;) {
        i--;
        if (key_of(scores[i]) == t) {
            mask[i] = 0;
            best[0] = t;
            kept--;
        }
    }
    IF(THRESHOLD)(thresholds[thresholds_offset + get_group_id(0)] = score_of(best[0]);)
}
