/* The pairs of kept rows that conv_dw_pruned_vector.cl multiplies in bf16: neighbours of the lists of conv_lists.cl.
 *
 * List q = s * block_cols + j of a sample, of segment s and block column j, has the entries a = starts[q] to
 * b. Entries a + 2 i and a + 2 i + 1 are pair p = (a + q) / 2 + i of the sample's `slots`, so that lists never
 * meet; pairs of sample n begin at n * slots.
 *     rows[p] = the rows of both, from the segment's first on,
 *     words[p * BC + c] = the values of both in column c of the block, as a pair of bf16.
 * The last entry of an odd list has as partner row `zero_row` and zeros. Values are stored as VALUES.
 *
 * Group g takes the lists of segment g % segments of sample g / segments. VW divides BC. No local
 * memory. */
#include "prelude/pairs.clh"
#include "sparse/bsr_values.clh"
#if !defined(BC) || !defined(BR)
#error "bspmm_pairs.cl needs BC and BR"
#endif
#if BC % VW != 0
#error "VW must divide BC"
#endif

/* The stored values of a sample, and its entries up to the end of a list. */
typedef struct list {
    global const stored *values;
    IF(SCALED)(global const ushort *scales;)
    global const uint2 *entries;
    uint end;
} list;

/* Prefetches the values of entry e, which lie anywhere in the sample. */
enum { AHEAD = 32 }; /* entries between the prefetch of a value and its use */
static inline void fetch_values(const list l, const uint e)
{
    const uint value_row = l.entries[e].y;
    PREFETCH(l.values + (ulong)(value_row / BR) * STORED_OF(BR * BC) + STORED_OF(value_row % BR * BC));
}

/* Columns c to c + VW - 1 of entry e; zero from the end of the list on. */
static inline vec values_at(const list l, const uint e, const uint c)
{
    if (e >= l.end)
        return (vec)(0.0f);
    IF(SCALED)(global const ushort *scales = l.scales;)
    const uint value_row = l.entries[e].y, block = value_row / BR;
    global const stored *from = l.values + (ulong)block * STORED_OF(BR * BC);
    return WIDEN(LOAD_CODES(from, value_row % BR * BC + c), SCALE(block));
}

/* The values of words w to w + 15 of the list that begins at entry e: in their lower halves from there, in their
 * upper ones from e + 1. */
static inline float16 half_words(const list l, const uint e, const uint w)
{
#if VW == 16
    return values_at(l, e + 2 * (w / BC), w % BC);
#else
    float values[16];
    for (uint i = 0; i < 16; i += VW)
        STORE(values_at(l, e + 2 * ((w + i) / BC), (w + i) % BC), values + i);
    return vload16(0, values);
#endif
}

KERNEL_OF(1) bspmm_pairs(const ulong block_cols, const ulong segments, const ulong keep, const ulong slots,
    const uint zero_row, REGION_IN(stored, values), IF(SCALED)(REGION_IN(ushort, scales) COMMA)
    REGION_IN(uint, starts), REGION_IN(uint2, entries), REGION_OUT(uint2, rows), REGION_OUT(uint, words))
{
    const ulong n = get_group_id(0) / segments, first_list = get_group_id(0) % segments * block_cols;
    list l = {values + values_offset + n * keep * STORED_OF(BR * BC),
        IF(SCALED)(scales + scales_offset + n * keep COMMA) entries + entries_offset + n * keep * BR, 0};
    starts += starts_offset + get_group_id(0) * (block_cols + 1);
    rows += rows_offset + n * slots;
    words += words_offset + n * slots * BC;
    const uint end = starts[block_cols];
    for (ulong j = 0; j < block_cols; j++) {
        const uint begin = starts[j];
        l.end = starts[j + 1];
        const uint pairs = (l.end - begin + 1) / 2, count = pairs * BC;
        const ulong slot = (begin + first_list + j) / 2;
        for (uint p = 0; p < pairs; p++) {
            const uint e = begin + 2 * p;
            UNROLLED(i, 2)
                fetch_values(l, min(e + AHEAD + i, end - 1));
            rows[slot + p] =
                (uint2)(l.entries[e].x, e + 1 < l.end ? l.entries[e + 1].x : zero_row);
        }
        for (uint w = 0; w < count; w += 16)
            store_words(round_pairs(half_words(l, begin, w), half_words(l, begin + 1, w)),
                words + slot * BC + w, count - w);
    }
}
