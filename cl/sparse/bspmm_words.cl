/* The words of kept rows that bspmm_nt_bf16_vector.cl multiplies, in the order of the lists of bspmm_lists.cl.
 *
 *     words[n * keep * BR * W + e * W + w] = columns 2 w and 2 w + 1 of the kept row of entry e of sample n, as
 *                                            a pair of bf16,
 * W = (BC + 1) / 2; a column that the block does not have is 0. Values are stored as VALUES.
 *
 * Group g takes the lists of segment g % segments of sample g / segments. VW divides BC. No
 * local memory. */
#include "prelude/pairs.clh"
#include "sparse/bsr_values.clh"
#if !defined(BC) || !defined(BR)
#error "bspmm_words.cl needs BC and BR"
#endif
#if BC % VW != 0
#error "VW must divide BC"
#endif
#define W ((BC + 1) / 2)

/* The stored values and the entries of a sample. */
typedef struct sample {
    global const stored *values;
    IF(SCALED)(global const ushort *scales;)
    global const uint2 *entries;
} sample;

/* Prefetches the values of entry e, which lie anywhere in the sample. */
enum { AHEAD = 32 }; /* entries between the prefetch of a value and its use */
static inline void fetch_values(const sample x, const uint e)
{
    const uint value_row = x.entries[e].y;
    PREFETCH(x.values + (ulong)(value_row / BR) * STORED_OF(BR * BC) + STORED_OF(value_row % BR * BC));
}

/* Columns c to c + VW - 1 of entry e; zero where BC is odd and c is BC. */
static inline vec values_at(const sample x, const uint e, const uint c)
{
    if (BC % 2 != 0 && c >= BC)
        return (vec)(0.0f);
    IF(SCALED)(global const ushort *scales = x.scales;)
    const uint value_row = x.entries[e].y, block = value_row / BR;
    global const stored *from = x.values + (ulong)block * STORED_OF(BR * BC);
    return WIDEN(LOAD_CODES(from, value_row % BR * BC + c), SCALE(block));
}

/* The values of words w to w + 7 from entry e on; zero from word `end` on. */
static inline float16 values16(const sample x, const uint e, const uint w, const uint end)
{
#if VW == 16
    return w < end ? values_at(x, e + w / W, 2 * (w % W)) : (float16)(0.0f);
#else
    float values[16];
    for (uint i = 0; i < 16; i += VW) {
        const uint at = w + i / 2;
        const vec v =
            at < end ? values_at(x, e + at / W, 2 * (at % W) + i % 2) : (vec)(0.0f);
        STORE(v, values + i);
    }
    return vload16(0, values);
#endif
}

KERNEL_OF(1) bspmm_words(const ulong block_cols, const ulong segments, const ulong keep,
    REGION_IN(stored, values), IF(SCALED)(REGION_IN(ushort, scales) COMMA) REGION_IN(uint, starts),
    REGION_IN(uint2, entries), REGION_OUT(uint, words))
{
    const ulong n = get_group_id(0) / segments;
    const sample x = {values + values_offset + n * keep * STORED_OF(BR * BC),
        IF(SCALED)(scales + scales_offset + n * keep COMMA) entries + entries_offset + n * keep * BR};
    starts += starts_offset + get_group_id(0) * (block_cols + 1);
    const uint begin = starts[0], count = (starts[block_cols] - begin) * W;
    words += words_offset + (n * keep * BR + begin) * W;
    const uint last = starts[block_cols] - 1;
    for (uint w = 0; w < count; w += 16) {
        for (uint e = w / W; e < (w + 16) / W; e++)
            fetch_values(x, min(begin + e + AHEAD, last));
        store_words(round32(values16(x, begin, w, count), values16(x, begin, w + 8, count)), words + w,
            count - w);
    }
}
