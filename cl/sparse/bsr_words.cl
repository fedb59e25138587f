/* words[(b * BR + r) * W + w] = columns 2 w and 2 w + 1 of row r of stored block b, 0 <= b < blocks, as a pair of
 * bf16 (row_words.clh).
 *
 * Group g takes `run` blocks, from block g * run on. No local memory. */
#include "sparse/row_words.clh"
#if !defined(BR)
#error "bsr_words.cl needs BR"
#endif

KERNEL_OF(1) bsr_words(const ulong blocks, const ulong run, REGION_IN(stored, values),
    IF(SCALED)(REGION_IN(ushort, scales) COMMA) REGION_OUT(uint, words))
{
    const ulong begin = get_group_id(0) * run, end = min(begin + run, blocks);
    values += values_offset;
    words += words_offset;
    IF(SCALED)(scales += scales_offset;)
    for (ulong b = begin; b < end; b++)
        for (uint r = 0; r < BR; r++)
            put_row(words + (b * BR + r) * W, values + b * STORED_OF(BR * BC), r * BC, SCALE(b));
}
