/* BSpMM nn for CPUs by lists of kept rows (bspmm_lists.cl): y_n = alpha * xs_n * w + beta * y_n.
 *
 *       xs_n, block column j           w                             y_n
 *     p -> |kept| x x x x x|        +-------+--------+--------+     +----------------+
 *     p'-> |kept| x x x x x|      j |       | panel  |        |     | P rows x PANEL |  in registers
 *          +----+                   +-------+--------+--------+     +----------------+
 *
 * One work-item a group; group (Q, g) computes panel Q, PANEL = 16 * V outputs, of segment g % segments of sample
 * g / segments. For each block column it takes the rows of the list P at a time, gathered into a register tile; the
 * last entry fills the last tile. Sums stay in local memory until the last column; each is one sum in the order of the
 * columns. While it multiplies, it prefetches its part of y, and the values of the entry AHEAD places later: `entries`
 * has AHEAD elements behind the last one.
 *
 * x has the units (nn_sums.clh) of each kept row, WIDTH in each, in the order of storage: values, or with BF16 the words
 * of bsr_words.cl. Panels of w: bspmm_panels.cl. CHUNK units of a block at a time are multiplied, so that their part of
 * w stays in a near cache.
 *
 * Local memory: SEG * PANEL * 4 bytes. P * V accumulators. V: 1 to 8. segment: 1 to SEG. */
#include "sparse/nn_sums.clh"
#if !defined(P) || !defined(BR) || !defined(SEG) || !defined(CHUNK) || !defined(AHEAD)
#error "bspmm_nn_vector.cl needs P, BR, SEG, CHUNK and AHEAD"
#endif

/* Rows of sums += `count` units of entries [e, end) times the panel. With each tile, `lines` of `next` are fetched. */
static inline void multiply_entries(local float *sums, global const operand *restrict panel, const uint count,
    global const uint2 *restrict entries, uint e, const uint end, global const operand *restrict x,
    lines_ahead *next, const uint lines)
{
    for (; e < end; e += P) {
        local float *to[P];
        global const operand *units[P];
        float16 sum[P][V];
        UNROLLED(r, P) {
            const uint2 entry = entries[min(e + r, end - 1)];
            to[r] = sums + entry.x * PANEL;
            units[r] = x + (ulong)entry.y * WIDTH;
            global const operand *later = x + (ulong)entries[e + r + AHEAD].y * WIDTH;
            UNROLLED(i, (CHUNK + LINE - 1) / LINE)
                PREFETCH(later + i * LINE);
        }
        fetch_lines(next, lines);
        FOR_TILE(P, r, h)
            sum[r][h] = *(local const float16 *)(to[r] + 16 * h);
        for (uint u = 0; u < count; u++) {
            operand16 d[V];
            FOR_VECTORS_OF_ROW(h)
                d[h] = *(global const operand16_anywhere *)(panel + u * PANEL + 16 * h);
            FOR_TILE(P, r, h)
                sum[r][h] = MULTIPLY_ADD(units[r][u], d[h], sum[r][h]);
        }
        FOR_TILE(P, r, h)
            *(local float16 *)(to[r] + 16 * h) = sum[r][h];
    }
}

KERNEL_OF(1) bspmm_nn_vector(const ulong rows, const ulong outputs, const ulong block_cols, const ulong segment,
    const ulong segments, const ulong keep, const float alpha, const float beta, REGION_IN(operand, x),
    REGION_IN(uint, starts), REGION_IN(uint2, entries), REGION_IN(operand, panels), MAT_OUT_RESTRICT(y))
{
    LOCAL_FLOATS(sums, SEG * PANEL);
    const ulong first_output = get_group_id(0) * PANEL;
    const ulong n = get_group_id(1) / segments, first = get_group_id(1) % segments * segment;
    const uint height = (uint)min(segment, rows - first);
    x += x_offset + n * keep * BR * WIDTH;
    entries += entries_offset + n * keep * BR;
    starts += starts_offset + get_group_id(1) * (block_cols + 1);
    panels += panels_offset + get_group_id(0) * block_cols * WIDTH * PANEL;
    global float *to = ROW(y, n * rows + first) + first_output;
    lines_ahead next = {to, y_ld, height, 0};
    const uint lines = height * V * P / (starts[block_cols] - starts[0] + 1) + 1;
    for (uint i = 0; i < height * V; i++)
        *(local float16 *)(sums + 16 * i) = (float16)(0.0f);
    for (ulong j = 0; j < block_cols; j++)
        for (uint offset = 0; offset < WIDTH; offset += CHUNK)
            multiply_entries(sums, panels + (j * WIDTH + offset) * PANEL, min((uint)CHUNK, WIDTH - offset), entries,
                starts[j], starts[j + 1], x + offset, &next, lines);
    for (uint r = 0; r < height; r++)
        finish_row(sums + r * PANEL, alpha, beta, to + r * y_ld, (uint)min((ulong)PANEL, outputs - first_output));
}
