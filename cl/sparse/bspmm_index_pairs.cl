/* The lists and pairs of bspmm_tn_bf16_vector.cl in one pass over the kept blocks: starts as bspmm_lists.cl writes
 * them, rows and words as bspmm_pairs.cl does, from crow and col (EVEN_ROWS: see there) in place of entries.
 *
 * Group g takes the lists of segment g % segments of sample g / segments. It counts the rows of each list, then
 * reads values in the order in which they are stored, and puts them into the lower or upper halves of the words of
 * their column. Meanwhile starts[j] is 2 * slot + half of the next one: a row number's place in `rows`. VW divides
 * BC. No local memory. */
#include "prelude/pairs.clh"
#include "sparse/bsr_values.clh"
#if !defined(BC) || !defined(BR)
#error "bspmm_index_pairs.cl needs BC and BR"
#endif
#if BC % VW != 0
#error "VW must divide BC"
#endif
#ifndef EVEN_ROWS
#define EVEN_ROWS 0
#endif
#define CROW(i) (EVEN_ROWS ? (int)((i) * (keep / block_rows)) : crow[i])

/* The lower halves, or with `upper` 1 the upper ones, of BC words = the values of a row, which begin at `code`. With
 * the lower halves the upper ones become 0. */
static inline void put_halves(
    global uint *words, const uint upper, global const stored *block, const uint code, const float scale)
{
    const uint shift = 16 * upper, kept = upper == 0 ? 0 : 0xffffu;
#if VW == 16
    for (uint c = 0; c < BC; c += 16) {
        const uint16 low = round_pairs(WIDEN(LOAD_CODES(block, code + c), scale), (float16)(0.0f));
        global uint16_anywhere *to = (global uint16_anywhere *)(words + c);
        *to = (*to & kept) | low << shift;
    }
#else
    for (uint c = 0; c < BC; c += VW) {
        float value[VW];
        STORE(WIDEN(LOAD_CODES(block, code + c), scale), value);
        for (uint i = 0; i < VW; i++)
            words[c + i] = (words[c + i] & kept) | round_pair(value[i], 0.0f) << shift;
    }
#endif
}

KERNEL_OF(1) bspmm_index_pairs(const ulong all_rows, const ulong block_cols, const ulong block_rows,
    const ulong segment, const ulong segments, const ulong keep, const ulong slots, const uint zero_row,
    REGION_IN(int, crow), REGION_IN(int, col), REGION_IN(stored, values),
    IF(SCALED)(REGION_IN(ushort, scales) COMMA) REGION_OUT(uint, starts), REGION_OUT(uint2, pairs),
    REGION_OUT(uint, words))
{
    const ulong n = get_group_id(0) / segments, first_list = get_group_id(0) % segments * block_cols;
    const ulong first = get_group_id(0) % segments * segment, last = min(first + segment, all_rows);
    crow += crow_offset + n * (block_rows + 1);
    col += col_offset + n * keep;
    values += values_offset + n * keep * STORED_OF(BR * BC);
    IF(SCALED)(scales += scales_offset + n * keep;)
    starts += starts_offset + get_group_id(0) * (block_cols + 1);
    global uint *restrict rows = (global uint *)(pairs + pairs_offset + n * slots);
    words += words_offset + n * slots * BC;
    /* Rows of the lists before this segment, which may begin inside a block row. */
    const ulong begin_row = first / BR, end_row = (last + BR - 1) / BR;
    const uint before = (uint)CROW(begin_row) * BR +
                        (uint)(first % BR) * (uint)(CROW(begin_row + 1) - CROW(begin_row));
    for (ulong j = 0; j < block_cols; j++)
        starts[j] = 0;
    for (ulong i = begin_row; i < end_row; i++) {
        const uint height = (uint)(min((i + 1) * BR, last) - max(i * BR, first));
        for (int k = CROW(i); k < CROW(i + 1); k++)
            starts[col[k]] += height;
    }
    uint begin = before;
    for (ulong j = 0; j < block_cols; j++) {
        const uint count = starts[j];
        starts[j] = (uint)((begin + first_list + j) / 2) * 2;
        begin += count;
    }
    for (ulong i = begin_row; i < end_row; i++)
        for (int k = CROW(i); k < CROW(i + 1); k++) {
            const uint from = (uint)(max(i * BR, first) - i * BR), to = (uint)(min((i + 1) * BR, last) - i * BR);
            global const stored *block = values + (ulong)k * STORED_OF(BR * BC);
            for (uint r = from; r < to; r++) {
                const uint at = starts[col[k]]++;
                global uint *word = words + (ulong)(at / 2) * BC;
                PREFETCH_WRITE(word + BC);
                rows[at] = (uint)(i * BR + r - first);
                put_halves(word, at % 2, block, r * BC, SCALE(k));
            }
        }
    begin = before;
    for (ulong j = 0; j < block_cols; j++) {
        const uint end = starts[j], count = end - (uint)((begin + first_list + j) / 2) * 2;
        if (count % 2 != 0)
            rows[end] = zero_row;
        starts[j] = begin;
        begin += count;
    }
    starts[block_cols] = begin;
}
