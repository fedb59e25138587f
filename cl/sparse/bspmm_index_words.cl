/* The kept rows of a matrix as words, pairs of bf16. W = (BC + 1) / 2 words a row, and a column that the block does not
 * have is 0. VW divides BC. No local memory.
 *
 * bspmm_words has them in the order of storage, for bspmm_nn_vector.cl:
 *
 *     words[(b * BR + r) * W + w] = columns 2 w and 2 w + 1 of row r of stored block b, 0 <= b < blocks.
 *
 * Group g takes `run` blocks, from block g * run on.
 *
 * With P, bspmm_index_words makes the lists of bspmm_nt_bf16_vector.cl and the words of their rows, in one pass over
 * the kept blocks:
 *
 *     words[(n * slots + e) * W + w] = columns 2 w and 2 w + 1 of the kept row of entry e of sample n,
 *     entries[n * slots + e] = (row, j),  starts[j] <= e < starts[j + 1],
 *
 * for segment s of sample n and block column j. Starts and rows are those of bspmm_lists.cl, but each list is filled
 * to a multiple of P with words of 0, whose row is behind the sample's last one. Group g takes the lists of segment
 * g % segments of sample g / segments. It counts the rows of each list, then reads values in the order in which they
 * are stored. Meanwhile starts[j] is the next entry of list j. */
#include "prelude/pairs.clh"
#include "sparse/bsr_values.clh"
#if !defined(BC) || !defined(BR)
#error "bspmm_index_words.cl needs BC and BR"
#endif
#if BC % VW != 0
#error "VW must divide BC"
#endif
#define W ((BC + 1) / 2)

typedef uint8 __attribute__((aligned(4))) uint8_anywhere;

/* W words = the values of a row, which begin at `code`. */
static inline void put_row(global uint *words, global const stored *block, const uint code, const float scale)
{
#if VW == 16
    for (uint c = 0; c < BC; c += 16) {
        const uint16 pairs = round32(WIDEN(LOAD_CODES(block, code + c), scale), (float16)(0.0f));
        *(global uint8_anywhere *)(words + c / 2) = pairs.lo;
    }
#else
    for (uint c = 0; c < BC; c += VW) {
        float value[VW + 1];
        STORE(WIDEN(LOAD_CODES(block, code + c), scale), value);
        value[VW] = 0.0f;
        /* VW 1: a word's halves come one by one. */
        for (uint i = 0; i < VW; i += 2)
            words[(c + i) / 2] = VW > 1 || c % 2 == 0 ? round_pair(value[i], value[i + 1])
                                                      : words[c / 2] | round_pair(0.0f, value[0]);
    }
#endif
}

KERNEL_OF(1) bspmm_words(const ulong blocks, const ulong run, REGION_IN(stored, values),
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

#ifdef P
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
#endif
