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
 * Group g takes `run` rows of the matrix that is written, from row g * run on; its LOCAL work-items
 * take vectors of VW columns in turn, in pool_columns cells. No local memory.
 * LOCAL: any >= 1. */
#include "prelude/common.clh"
#ifndef LOCAL
#error "pool.cl needs LOCAL"
#endif

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
#if MEAN
#define RESULT(sum) ((sum) / count)
#else
#define RESULT(sum) (sum)
#endif

KERNEL_OF(LOCAL) pool_rows(const ulong run, const ulong height, const ulong width, const ulong cell,
    const ulong cells, const ulong rows, const ulong cols, MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(to))
{
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    for (ulong row = first; row < last; row++) {
        const place_range p = cell_places(row % cells, height, width, cell);
        const float count = (float)((p.bottom - p.top) * (p.right - p.left));
        global const float *sample = ROW(x, row / cells * height * width);
        global float *out = ROW(to, row);
        ulong c = get_local_id(0) * VW;
        for (; c + VW <= cols; c += LOCAL * VW) {
            vec sum = 0;
            for (ulong i = p.top; i < p.bottom; i++)
                for (ulong j = p.left; j < p.right; j++)
                    sum += LOAD(sample + (i * width + j) * x_ld + c);
            STORE(RESULT(sum), out + c);
        }
        for (; c < cols; c++) { /* the work-item that reached the end */
            float sum = 0.0f;
            for (ulong i = p.top; i < p.bottom; i++)
                for (ulong j = p.left; j < p.right; j++)
                    sum += sample[(i * width + j) * x_ld + c];
            out[c] = RESULT(sum);
        }
    }
}
#elif defined(READ_DW)

KERNEL_OF(LOCAL) pool_columns(const ulong run, const ulong height, const ulong width,
    const ulong cell, const ulong cells, const ulong rows, const float beta, MAT_IN_RESTRICT(sums),
    MAT_OUT_RESTRICT(dw))
{
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    for (ulong k = get_local_id(0); k < cells; k += LOCAL) {
        const place_range p = cell_places(k, height, width, cell);
        for (ulong row = first; row < last; row++) {
            const float sum = AT(sums, row, k);
            for (ulong i = p.top; i < p.bottom; i++)
                for (ulong j = p.left; j < p.right; j++) {
                    global float *to = ROW(dw, row) + i * width + j;
#if READ_DW
                    *to = fma(beta, *to, sum);
#else
                    *to = sum;
#endif
                }
        }
    }
}
#else
#if SHIFT
#define SPREAD(load, value) fma((value), scale, load)
#else
#define SPREAD(load, value) (value)
#endif

KERNEL_OF(LOCAL) pool_spread(const ulong run,
    const ulong height, const ulong width, const ulong cell, const ulong cells, const ulong rows, const ulong cols,
#if SHIFT
    const float scale, MAT_IN(x),
#endif
    MAT_IN_RESTRICT(from), MAT_OUT(y))
{
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    const ulong cells_x = (width + cell - 1) / cell;
    for (ulong row = first; row < last; row++) {
        const ulong place = row % (height * width);
        const ulong k = place / width / cell * cells_x + place % width / cell;
        global const float *in = ROW(from, row / (height * width) * cells + k);
        global float *out = ROW(y, row);
#if SHIFT
        global const float *base = ROW(x, row);
#endif
        ulong c = get_local_id(0) * VW;
        for (; c + VW <= cols; c += LOCAL * VW)
            STORE(SPREAD(LOAD(base + c), LOAD(in + c)), out + c);
        for (; c < cols; c++)
            out[c] = SPREAD(base[c], in[c]);
    }
}
#endif
