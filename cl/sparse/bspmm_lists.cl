/* Lists of the kept blocks by block column, in row order. BSpMM walks these instead of the block rows.
 *
 * A sample's rows are cut into segments of `segment` rows. For segment s of sample n and block column j,
 *     entries[n * keep * BR + e] = (row, value row),  column_start[j] <= e < column_start[j + 1],
 *     column_start = starts + (n * segments + s) * (block_cols + 1),
 * one entry for each row in [s * segment, (s + 1) * segment) of a kept block of column j: `row` counts from
 * the segment's first row, `value row` is k * BR + r, row r of kept block k. Rows that overhang the
 * sample have no entry.
 *
 * With EVEN_ROWS each block row of a sample keeps keep / block_rows blocks, and crow is not read.
 *
 * Group g takes segment g % segments of sample n = g / segments of crow and col, from their offsets on. On
 * CPUs (LOCAL 1) it counts the blocks of each column, then places them in order, and prefetches the next
 * cache line of each list. On GPUs each work-item takes a run of consecutive block columns and finds them
 * in each block row by bisection. Local memory: LOCAL * 4 bytes where LOCAL > 1, else none. */
#include "prelude/common.clh"
#if !defined(LOCAL) || !defined(BR)
#error "bspmm_lists.cl needs LOCAL and BR"
#endif
#define LINE 8 /* entries of a cache line */

#ifndef EVEN_ROWS
#define EVEN_ROWS 0
#endif
#define CROW(i) (EVEN_ROWS ? (int)((i) * (keep / block_rows)) : crow[i])

/* The position of column j among the ascending col[begin .. end), or `end` if it is not there. */
static inline int find_column(global const int *col, int begin, const int end, const int j)
{
    int high = end;
    while (begin < high) {
        const int middle = begin + (high - begin) / 2;
        if (col[middle] < j)
            begin = middle + 1;
        else
            high = middle;
    }
    return begin < end && col[begin] == j ? begin : end;
}

KERNEL_OF(LOCAL) bspmm_lists(const ulong rows, const ulong block_cols, const ulong block_rows,
    const ulong segment, const ulong segments, const ulong keep, REGION_IN(int, crow),
    REGION_IN(int, col), REGION_OUT(uint, starts), REGION_OUT(uint2, entries))
{
    const ulong n = get_group_id(0) / segments;
    const ulong first = get_group_id(0) % segments * segment;
    const ulong last = min(first + segment, rows);
    crow += crow_offset + n * (block_rows + 1);
    col += col_offset + n * keep;
    starts += starts_offset + get_group_id(0) * (block_cols + 1);
    entries += entries_offset + n * keep * BR;

    /* Entries of the rows before this segment; a segment may begin inside a block row. */
    const ulong begin_row = first / BR, end_row = (last + BR - 1) / BR;
    const uint before = (uint)CROW(begin_row) * BR +
                        (uint)(first % BR) * (uint)(CROW(begin_row + 1) - CROW(begin_row));
#if LOCAL == 1
    for (ulong j = 0; j < block_cols + 1; j++) /* with <=, Intel's compiler stores past the end */
        starts[j] = 0;
    for (ulong i = begin_row; i < end_row; i++) {
        const uint height = (uint)(min((i + 1) * BR, last) - max(i * BR, first));
        for (int k = CROW(i); k < CROW(i + 1); k++)
            starts[col[k] + 1] += height;
    }
    starts[0] = before;
    for (ulong j = 0; j < block_cols; j++)
        starts[j + 1] += starts[j];
    /* While placing, starts[j] is the cursor of column j; it ends at the start of column j + 1, so a
     * shift by one restores the starts. */
    for (ulong i = begin_row; i < end_row; i++)
        for (int k = CROW(i); k < CROW(i + 1); k++)
            for (ulong row = max(i * BR, first); row < min((i + 1) * BR, last); row++) {
                const uint e = starts[col[k]]++;
                PREFETCH_WRITE(entries + e + LINE);
                entries[e] = (uint2)((uint)(row - first), (uint)k * BR + (uint)(row - i * BR));
            }
    for (ulong j = block_cols; j > 0; j--)
        starts[j] = starts[j - 1];
    starts[0] = before;
#else
    local uint run_entries[LOCAL];
    const uint me = get_local_id(0);
    const ulong run = (block_cols + LOCAL - 1) / LOCAL;
    const ulong first_column = min(me * run, block_cols);
    const ulong last_column = min(first_column + run, block_cols);
    uint count = 0;
    for (ulong j = first_column; j < last_column; j++)
        for (ulong i = begin_row; i < end_row; i++)
            if (find_column(col, CROW(i), CROW(i + 1), (int)j) < CROW(i + 1))
                count += (uint)(min((i + 1) * BR, last) - max(i * BR, first));
    run_entries[me] = count;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint next = before;
    for (uint i = 0; i < me; i++)
        next += run_entries[i];
    for (ulong j = first_column; j < last_column; j++) {
        starts[j] = next;
        for (ulong i = begin_row; i < end_row; i++) {
            const int k = find_column(col, CROW(i), CROW(i + 1), (int)j);
            if (k == CROW(i + 1))
                continue;
            for (ulong row = max(i * BR, first); row < min((i + 1) * BR, last); row++)
                entries[next++] =
                    (uint2)((uint)(row - first), (uint)k * BR + (uint)(row - i * BR));
        }
    }
    if (last_column == block_cols && (first_column < last_column || me == 0))
        starts[block_cols] = next;
#endif
}
