/* The lists of bspmm_nt_bf16_vector.cl and the words of their rows, in one pass over the kept blocks.
 *
 *     words[(n * slots + e) * W + w] = columns 2 w and 2 w + 1 of the kept row of entry e of sample n, as a pair
 *                                      of bf16,
 *     entries[n * slots + e] = (row, j),  starts[j] <= e < starts[j + 1],
 * for segment s of sample n and block column j; W = (BC + 1) / 2, and a column that the block does not have is 0.
 * Starts and rows are those of bspmm_lists.cl, but each list is filled to a multiple of P with words of 0, whose row is
 * behind the sample's last one.
 *
 * Group g takes the lists of segment g % segments of sample g / segments. It counts the rows of each list, then
 * reads values in the order in which they are stored. Meanwhile starts[j] is the next entry of list j. VW divides
 * BC. No local memory. */
#include "sparse/row_words.clh"
#if !defined(BC) || !defined(BR) || !defined(P)
#error "bspmm_index_words.cl needs BC, BR and P"
#endif
#define ROUNDED_UP(n) (((n) + P - 1) / P * P)

KERNEL_OF(1) bspmm_index_words(const ulong rows, const ulong block_cols, const ulong block_rows,
    const ulong segment, const ulong segments, const ulong keep, const ulong slots, REGION_IN(int, crow),
    REGION_IN(int, col), REGION_IN(stored, values), IF(SCALED)(REGION_IN(ushort, scales) COMMA)
    REGION_OUT(uint, starts), REGION_OUT(uint2, entries), REGION_OUT(uint, words))
{
    const ulong n = get_group_id(0) / segments, s = get_group_id(0) % segments;
    const ulong first = s * segment, last = min(first + segment, rows);
    crow += crow_offset + n * (block_rows + 1);
    col += col_offset + n * keep;
    values += values_offset + n * keep * STORED_OF(BR * BC);
    IF(SCALED)(scales += scales_offset + n * keep;)
    starts += starts_offset + get_group_id(0) * (block_cols + 1);
    entries += entries_offset + n * slots;
    words += words_offset + n * slots * W;
    /* Entries of the rows before this segment, which may begin inside a block row. */
    const ulong begin_row = first / BR, end_row = (last + BR - 1) / BR;
    const uint before = (uint)crow[begin_row] * BR +
                        (uint)(first % BR) * (uint)(crow[begin_row + 1] - crow[begin_row]);
    for (ulong j = 0; j < block_cols; j++)
        starts[j] = 0;
    for (ulong i = begin_row; i < end_row; i++) {
        const uint height = (uint)(min((i + 1) * BR, last) - max(i * BR, first));
        for (int k = crow[i]; k < crow[i + 1]; k++)
            starts[col[k]] += height;
    }
    const uint begin = ROUNDED_UP(before + (uint)(s * block_cols) * (P - 1));
    uint next = begin;
    for (ulong j = 0; j < block_cols; j++) {
        const uint count = starts[j];
        starts[j] = next;
        next += ROUNDED_UP(count);
    }
    for (ulong i = begin_row; i < end_row; i++)
        for (int k = crow[i]; k < crow[i + 1]; k++) {
            const uint from = (uint)(max(i * BR, first) - i * BR), to = (uint)(min((i + 1) * BR, last) - i * BR);
            global const stored *block = values + (ulong)k * STORED_OF(BR * BC);
            for (uint r = from; r < to; r++) {
                const uint e = starts[col[k]]++;
                PREFETCH_WRITE(words + (ulong)(e + 2) * W);
                entries[e] = (uint2)((uint)(i * BR + r - first), (uint)col[k]);
                put_row(words + (ulong)e * W, block, r * BC, SCALE(k));
            }
        }
    next = begin;
    for (ulong j = 0; j < block_cols; j++) {
        uint e = starts[j];
        starts[j] = next;
        for (next = ROUNDED_UP(e); e < next; e++) {
            entries[e] = (uint2)((uint)(rows - first), (uint)j);
            for (uint w = 0; w < W; w++)
                words[(ulong)e * W + w] = 0;
        }
    }
    starts[block_cols] = next;
}
