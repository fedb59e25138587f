/* Cells of CELL x CELL neighbours on a sample's grid of rows (token pooling, arXiv 2409.11902).
 *
 * A sample has height * width rows; row y * width + x is place (y, x) of the grid. Cell (i, j) holds the
 * places of rows [i * cell, (i + 1) * cell) and columns [j * cell, (j + 1) * cell) that exist; it is
 * number i * cells_x + j of its sample, cells_x = ceil(width / cell):
 *
 *     width 5, cell 2:   0 0 1 1 2
 *                        0 0 1 1 2
 *                        3 3 4 4 5
 *
 *     pool_rows      to[n][k][c] = sum over the rows r of cell k of x[n][r][c], in the order of r; with
 *                    MEAN 1 divided by the number of these rows
 *     pool_spread    y[n][r][c] = from[n][cell of r][c]; with SHIFT, y[n][r][c] = x[n][r][c] +
 *                    scale * from[n][cell of r][c], and y may be x
 *     pool_columns   dw[o][r] = sums[o][cell of r] + beta * dw[o][r]; with READ_DW 0 (beta = 0) dw is
 *                    not read
 *
 * Row-wise over the matrix that is written, see rowwise.clh; in pool_columns the work-items take cells in turn.
 * No local memory. */
#include "prelude/rowwise.clh"

/* The places [top, bottom) x [left, right) of a cell. */
typedef struct place_range {
    ulong top, bottom, left, right;
} place_range;

static inline place_range cell_places(
    const ulong number, const ulong height, const ulong width, const ulong cell)
{
    const ulong cells_x = (width + cell - 1) / cell;
    const ulong y = number / cells_x * cell, x = number % cells_x * cell;
    const place_range places = {y, min(y + cell, height), x, min(x + cell, width)};
    return places;
}

#ifdef MEAN
#define RESULT(sum) (MEAN ? (sum) / count : (sum))

KERNEL_OF(LOCAL) pool_rows(const ulong group_rows, const ulong height, const ulong width,
    const ulong cell, const ulong cells, const ulong rows, const ulong cols, MAT_IN_RESTRICT(x),
    MAT_OUT_RESTRICT(to))
{
    FOR_ROWS(row) {
        const place_range p = cell_places(row % cells, height, width, cell);
        const float count = (float)((p.bottom - p.top) * (p.right - p.left));
        const ulong sample = row / cells * height * width;
        FOR_VECTORS(c) {
            vec sum = 0;
            for (ulong i = p.top; i < p.bottom; i++)
                for (ulong j = p.left; j < p.right; j++)
                    sum += GET(x, sample + i * width + j, c);
            PUT(RESULT(sum), to, row, c);
        }
    }
}
#elif defined(READ_DW)

KERNEL_OF(LOCAL) pool_columns(const ulong group_rows, const ulong height, const ulong width,
    const ulong cell, const ulong cells, const ulong rows, const float beta, MAT_IN_RESTRICT(sums),
    MAT_OUT_RESTRICT(dw))
{
    for (ulong k = get_local_id(0); k < cells; k += LOCAL) {
        const place_range p = cell_places(k, height, width, cell);
        FOR_ROWS(row) {
            const float sum = AT(sums, row, k);
            for (ulong i = p.top; i < p.bottom; i++)
                for (ulong j = p.left; j < p.right; j++) {
                    global float *to = ROW(dw, row) + i * width + j;
                    *to = READ_DW ? fma(beta, *to, sum) : sum;
                }
        }
    }
}
#else

KERNEL_OF(LOCAL) pool_spread(const ulong group_rows, const ulong height, const ulong width,
    const ulong cell, const ulong cells, const ulong rows, const ulong cols,
    IF(SHIFT)(const float scale COMMA MAT_IN(x) COMMA) MAT_IN_RESTRICT(from), MAT_OUT(y))
{
    const ulong cells_x = (width + cell - 1) / cell;
    FOR_ROWS(row) {
        const ulong place = row % (height * width);
        const ulong k = place / width / cell * cells_x + place % width / cell;
        const ulong of = row / (height * width) * cells + k;
        FOR_VECTORS(c)
#if SHIFT
            PUT(fma(GET(from, of, c), scale, GET(x, row, c)), y, row, c);
#else
            PUT(GET(from, of, c), y, row, c);
#endif
    }
}
#endif
