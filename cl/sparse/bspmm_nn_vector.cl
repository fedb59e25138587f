/* BSpMM nn for CPUs: y_n = alpha * xs_n * w + beta * y_n.
 *
 *       xs_n, block column j          w                              y_n
 *     p -> |kept| x x x x x|        +-------+--------+--------+     +----------------+
 *     p'-> |kept| x x x x x|      j |       | panel  |        |     | rows x PANEL   |  a tile, in registers
 *          +----+                   +-------+--------+--------+     +----------------+
 *
 * One work-item a group. A group computes one panel, PANEL = 16 * V outputs, of some rows. bspmm_panels copies w:
 *
 *     panels[(Q * block_cols + j) * WIDTH + u][i] = unit u of w[j * BC ..][Q * PANEL + i]
 *
 * A unit is a row of w and a column of xs; with BF16 1 or 2 it is a pair of them (pairs.clh). WIDTH: units of a block,
 * padded with zeros; outputs are too. x has the units of each kept row, in the order of storage: values, or the words
 * of bspmm_words. Sums stay in local memory until the last block column; each is one sum in the order of the columns.
 * With a beta of 0 y is not read.
 *
 * With P, bspmm_nn_lists goes by lists of kept rows (bspmm_lists.cl), for blocks of one row. With MR, bspmm_nn_strips
 * goes row by row, MR at once, for blocks of several rows, or so few units that loading and storing sums would take
 * most of the time. V: 1 to 8. */
#include "prelude/operand.clh"
#include "prelude/tile16.clh"
#if !defined(BC)
#error "bspmm_nn_vector.cl needs BC"
#endif
#define TERMS (BF16 ? 2 : 1)
#define WIDTH ((BC + TERMS - 1) / TERMS)

/* Group (Q, g) takes the `run` block columns of panel Q from g * run on. */
KERNEL_OF(1) bspmm_panels(const ulong cols, const ulong outputs, const ulong block_cols, const ulong run,
    MAT_IN_RESTRICT(w), REGION_OUT(operand, panels))
{
    const ulong first_output = get_group_id(0) * PANEL, first = get_group_id(1) * run;
    const ulong last = min(first + run, block_cols);
    panels += panels_offset + (get_group_id(0) * block_cols + first) * WIDTH * PANEL;
    for (ulong j = first; j < last; j++) {
        const uint depth = (uint)min((ulong)BC, cols - j * BC);
        for (uint c = 0; c < BC; c += TERMS, panels += PANEL) {
            global const float *from = ROW(w, j * BC + c) + first_output;
            FOR_VECTORS_OF_ROW(h) {
                const uint left = (uint)min((ulong)16, outputs - min(outputs, first_output + 16 * h));
                const float16 x = first16(from + 16 * h, c < depth ? left : 0);
#if BF16
                const float16 second = first16(from + w_ld + 16 * h, c + 1 < depth ? left : 0);
                *(global operand16_anywhere *)(panels + 16 * h) = round_pairs(x, second);
#else
                STORE16(x, panels + 16 * h);
#endif
            }
        }
    }
}

#if defined(P) || defined(MR)
/* The lines of y that a group will write, V in each of `rows` rows; the first `done` are prefetched. */
typedef struct lines_ahead {
    global const float *y;
    ulong ld;
    uint rows, done;
} lines_ahead;

static inline void fetch_lines(lines_ahead *next, const uint count)
{
    const uint end = min(next->done + count, next->rows * V);
    for (; next->done < end; next->done++)
        PREFETCH_WRITE(next->y + next->done / V * next->ld + next->done % V * LINE);
}

/* y = alpha * sums + beta * y for `width` outputs of a row. */
static inline void finish_row(
    local const float *sums, const float alpha, const float beta, global float *y, const uint width)
{
    uint j = 0;
    for (; j + 16 <= width; j += 16) {
        const float16 value = alpha * *(local const float16 *)(sums + j);
        STORE16(beta != 0 ? fma((float16)(beta), LOAD16(y + j), value) : value, y + j);
    }
    for (; j < width; j++)
        y[j] = beta != 0 ? fma(beta, y[j], alpha * sums[j]) : alpha * sums[j];
}
#endif

#ifdef P
/* Group (Q, g) takes segment g % segments of sample g / segments. For each block column it takes the rows of the list,
 * P at a time, gathered into a tile; the last entry fills the last tile. Values of the entry AHEAD places later are
 * prefetched: `entries` has AHEAD elements behind the last one. CHUNK units of a block at a time are multiplied, so
 * that their part of w stays in a near cache.
 *
 * Local memory: SEG * PANEL * 4 bytes. P * V accumulators. segment: 1 to SEG. */

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
            const uint at = min(e + r, end - 1);
            const uint2 entry = entries[at];
            to[r] = sums + entry.x * PANEL;
            units[r] = x + (ulong)entry.y * WIDTH;
            global const operand *later = x + (ulong)entries[at + AHEAD].y * WIDTH;
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

KERNEL_OF(1) bspmm_nn_lists(const ulong rows, const ulong outputs, const ulong block_cols, const ulong segment,
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
#endif

#ifdef MR
/* Strip s has the rows [s % STRIPS * MR, ...), at most MR, of block row s / STRIPS, counted through all samples. Group
 * (Q, g) takes the strips [g * run, (g + 1) * run). It takes BLOCKS block columns at a time, whose part of w stays in a
 * near cache, and goes through the strips: next[s] is the first kept block of these columns.
 *
 * Local memory: SEG * (MR * PANEL * 4 + 8) bytes. MR * V accumulators. run: 1 to SEG. */
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

KERNEL_OF(1) bspmm_nn_strips(const ulong batch, const ulong rows, const ulong outputs, const ulong block_rows,
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
    panels += panels_offset + get_group_id(0) * block_cols * WIDTH * PANEL;
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
#endif
