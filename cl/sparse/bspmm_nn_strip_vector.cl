/* BSpMM nn for CPUs by strips of rows: y_n = alpha * xs_n * w + beta * y_n.
 *
 *       xs_n                       w                             y_n
 *     +----+------+-----+        +------+-------+------+       +---------------+
 *     |    | kept |     | MR     |      | panel |      |       | MR rows x     |  in registers
 *     +----+------+-----+        |      |       |      |       | PANEL = 16 V  |
 *                                +------+-------+------+       +---------------+
 *
 * Strip s has the rows [s % STRIPS * MR, ...), at most MR, of block row s / STRIPS, counted through all samples. One
 * work-item a group; group (Q, g) computes panel Q of the strips [g * run, (g + 1) * run). It takes BLOCKS block
 * columns of w at a time, which stay in a near cache, and goes through the strips: next[s] is the first kept block of
 * these columns. Sums stay in local memory until the last columns; each is one sum in the order of the columns.
 *
 * Units, x and panels are those of bspmm_nn_vector.cl. Local memory: SEG * (MR * PANEL * 4 + 8) bytes. MR * V
 * accumulators. V: 1 to 8. run: 1 to SEG. */
#include "sparse/nn_sums.clh"
#if !defined(MR) || !defined(BR) || !defined(SEG) || !defined(BLOCKS)
#error "bspmm_nn_strip_vector.cl needs MR, BR, SEG and BLOCKS"
#endif
#define STRIPS ((BR + MR - 1) / MR)

/* A strip: its kept blocks are [.., end), x points to its first row of block 0, and `last` is its last row. */
typedef struct strip {
    ulong end;
    global const int *col;
    global const operand *x;
    uint last;
} strip;

/* sums += the products of the kept blocks from k on whose columns are below `stop`. `panel` is that of block column
 * `first`; fresh: sums are 0. Rows after the last one repeat it. Returns the block after these. */
static inline ulong multiply_strip(local float *sums, const bool fresh, const strip s, ulong k, const uint first,
    const uint stop, global const operand *panel)
{
    float16 sum[MR][V];
    FOR_TILE(MR, r, h)
        sum[r][h] = fresh ? (float16)(0.0f) : *(local const float16 *)(sums + r * PANEL + 16 * h);
    for (; k < s.end && (uint)s.col[k] < stop; k++) {
        global const operand *w = panel + ((uint)s.col[k] - first) * (WIDTH * PANEL);
        global const operand *units = s.x + k * (BR * WIDTH);
        for (uint u = 0; u < WIDTH; u++) {
            operand16 d[V];
            FOR_VECTORS_OF_ROW(h)
                d[h] = *(global const operand16_anywhere *)(w + u * PANEL + 16 * h);
            FOR_TILE(MR, r, h)
                sum[r][h] = MULTIPLY_ADD(units[min((uint)r, s.last) * WIDTH + u], d[h], sum[r][h]);
        }
    }
    FOR_TILE(MR, r, h)
        *(local float16 *)(sums + r * PANEL + 16 * h) = sum[r][h];
    return k;
}

KERNEL_OF(1) bspmm_nn_strip(const ulong batch, const ulong rows, const ulong outputs, const ulong block_rows,
    const ulong block_cols, const ulong keep, const ulong run, const float alpha, const float beta,
    REGION_IN(operand, x), REGION_IN(int, crow), REGION_IN(int, col), REGION_IN(operand, panels), MAT_OUT_RESTRICT(y))
{
    LOCAL_FLOATS(sums, SEG * MR * PANEL);
    local ulong next[SEG];
    const ulong first_output = get_group_id(0) * PANEL, first = get_group_id(1) * run;
    const uint width = (uint)min((ulong)PANEL, outputs - first_output);
    const uint strips = (uint)min(run, batch * block_rows * STRIPS - first);
    const uint lines = (uint)((ulong)(MR * V) * BLOCKS / block_cols) + 1;
    ulong row = first / STRIPS / block_rows * rows + first / STRIPS % block_rows * BR + first % STRIPS * MR;
    row = min(row, batch * rows); /* a strip may lie behind its sample */
    lines_ahead ahead = {ROW(y, row) + first_output, y_ld, (uint)min((ulong)strips * MR, batch * rows - row), 0};
    x += x_offset;
    crow += crow_offset;
    panels += panels_offset + get_group_id(0) * block_cols * (WIDTH * PANEL);
    for (ulong j = 0; j < block_cols; j += BLOCKS)
        for (uint i = 0; i < strips; i++) {
            const ulong block_row = (first + i) / STRIPS, n = block_row / block_rows;
            const uint top = (uint)((first + i) % STRIPS) * MR;
            global const int *start = crow + block_row + n;
            const strip s = {n * keep + start[1], col + col_offset, x + top * WIDTH, BR - 1 - top};
            fetch_lines(&ahead, lines);
            next[i] = multiply_strip(sums + i * (MR * PANEL), j == 0, s, j == 0 ? n * keep + start[0] : next[i],
                (uint)j, (uint)j + BLOCKS, panels + j * (WIDTH * PANEL));
        }
    for (uint i = 0; i < strips; i++) {
        const ulong block_row = (first + i) / STRIPS, n = block_row / block_rows;
        const ulong top = block_row % block_rows * BR + (first + i) % STRIPS * MR;
        const ulong bottom = min(rows, block_row % block_rows * BR + BR);
        for (uint r = 0; r < MR && top + r < bottom; r++)
            finish_row(sums + (i * MR + r) * PANEL, alpha, beta, ROW(y, n * rows + top + r) + first_output, width);
    }
}
