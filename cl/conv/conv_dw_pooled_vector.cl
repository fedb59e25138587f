/* Weight gradient of a convolution for CPUs from pooled cells: x holds the means of cells of cell x cell
 * source pixels, so each cell meets the sum of dy over the result pixels whose source under a tap is in it.
 *
 *     partial[split][P][t * C + c][i] = sum over the images n of `split` and the cells k of
 *         (sum over (u, v) with source(u, v, t) in k of dy[n, u, v][P * PANEL + i]) * x[n, k][c]
 *
 * with source, P, C, the groups and DIRECT as in conv_dw_vector.cl. A segment is segment_height whole rows of
 * cells of `images` images, at most SEG cells. For each tap its panel is the rectangle of cells that the tap
 * reaches; at a border, padding may exclude a row or column.
 *
 * With BF16 the sums of dy and the means are rounded to bf16 (pairs.clh), and two consecutive cells of the panel
 * are a pair; a strip in local memory has the pairs of `depth` channels, a multiple of CB, at a time. With DIRECT
 * 16 divides depth.
 *
 * Local memory: SEG * PANEL * 4 bytes, with DIRECT plus direct.clh's; with BF16 half of the former, rounded up to
 * whole pairs, and STRIP * 4. CB divides C. */
#include "conv/direct.clh"
#include "conv/layer.clh"
#include "prelude/operand.clh"
#ifndef SEG
#error "conv_dw_pooled_vector.cl needs SEG"
#endif

/* Rows [top, bottom) of the cells of `count` images from n on. fresh: the first segment of a split, last: the
 * last one. */
typedef struct segment {
    ulong n;
    uint count, top, bottom;
    bool fresh, last;
} segment;

/* Cells of an image: all rows and columns of it, and the side of a cell in pixels. */
typedef struct cell_grid {
    uint rows, cols, side;
} cell_grid;

/* The cells of an axis within [low, high), from the first to the last that holds a source of one of the
 * `results` pixels. */
static inline uint2 cells_reached(const uint low, const uint high, const uint results,
    const int stride, const int shift, const uint image, const uint side)
{
    const uint2 u = reaching(0, (int)results, stride, shift, 0, (int)image);
    if (u.x == u.y)
        return (uint2)(low, low);
    const uint a = max(low, (uint)((int)u.x * stride + shift) / side);
    return (uint2)(a, max(a, min(high, (uint)((int)(u.y - 1) * stride + shift) / side + 1)));
}

/* total += the `inside` outputs from `from` on. */
static inline void add_outputs(float16 total[V], global const float *from, const uint inside)
{
    float part[PANEL];
    if (inside < PANEL)
        for (uint j = 0; j < PANEL; j++)
            part[j] = j < inside ? from[j] : 0.0f;
    FOR_VECTORS_OF_ROW(h)
        total[h] += inside == PANEL ? LOAD16(from + 16 * h) : vload16(h, part);
}

#if BF16
#define PANEL_ROWS ((SEG + 1) / 2)
/* Row `cell` of what lies at `to`, `pitch` words a pair: it is half of a pair. Cells come in order. */
static inline void put_cell(local uint *to, const uint cell, const uint pitch, const float16 x)
{
    local uint16 *pair = (local uint16 *)(to + cell / 2 * pitch);
    *pair = cell % 2 == 0 ? round_pairs(x, (float16)(0.0f)) : *pair | round_pairs((float16)(0.0f), x);
}
#else
#define PANEL_ROWS SEG
static inline void put_cell(local float *to, const uint cell, const uint pitch, const float16 x)
{
    *(local float16 *)(to + cell * pitch) = x;
}
#endif

/* Row `cell` of the panel = the sum of dy over the result pixels rows x cols of an image. */
static inline void sum_results(local operand *panel, const uint cell, global const float *dy, const ulong dy_ld,
    const uint inside, const uint width, const uint2 rows, const uint2 cols)
{
    float16 total[V];
    FOR_VECTORS_OF_ROW(h)
        total[h] = (float16)(0.0f);
    for (uint u = rows.x; u < rows.y; u++)
        for (uint v = cols.x; v < cols.y; v++)
            add_outputs(total, dy + ((ulong)u * width + v) * dy_ld, inside);
    FOR_VECTORS_OF_ROW(h)
        put_cell(panel + 16 * h, cell, PANEL, total[h]);
}

/* panel[..] = for each cell of down x across, image by image, the sum of dy over the result pixels whose source
 * under the tap is in the cell. `inside` outputs exist from dy on. */
static inline void sum_cells(local operand *panel, const segment s, global const float *dy,
    const ulong dy_ld, const uint inside, const layer a, const int2 shift, const uint side,
    const uint2 down, const uint2 across)
{
    const uint bottom = min(down.y * side, a.image_height), right = min(across.y * side, a.image_width);
    uint cell = 0;
    for (uint m = 0; m < s.count; m++)
        for (uint y = down.x * side; y < bottom; y += side) {
            global const float *image = dy + (s.n + m) * a.height * a.width * dy_ld;
            const uint2 rows = reaching(0, (int)a.height, a.stride_y, shift.y, (int)y,
                (int)min(y + side, a.image_height));
            for (uint x = across.x * side; x < right; x += side) {
                const uint2 cols = reaching(0, (int)a.width, a.stride_x, shift.x, (int)x,
                    (int)min(x + side, a.image_width));
                sum_results(panel, cell++, image, dy_ld, inside, a.width, rows, cols);
            }
        }
}

/* tiles[c] += the panel of cells down x across times their channels, for the tiles of a tap. */
#if BF16
static inline void multiply_cells(local const uint *panel, local uint *strip, const uint depth,
    const segment s, const cell_grid grid, const uint2 down, const uint2 across, const uint first_column,
    const uint channels, global const float *x, const ulong x_ld, global float *tiles, const destination to)
{
    for (uint first = 0; first < channels; first += depth) {
        const uint deep = min(depth, channels - first), pitch = (deep + 15) / 16 * 16;
        uint cells = 0;
        for (uint m = 0; m < s.count; m++)
            for (uint k = down.x; k < down.y; k++)
                for (uint i = across.x; i < across.y; i++, cells++) {
                    global const float *from =
                        x + (((s.n + m) * grid.rows + k) * grid.cols + i) * x_ld + first;
                    for (uint c = 0; c < deep; c += 16)
                        put_cell(strip + c, cells, pitch, first16(from + c, deep - c));
                }
        for (uint c = 0; c < deep; c += CB) {
            const ulong column = (ulong)first_column + first + c;
            float16 sum[CB][V];
            load_tile(sum, tiles + column * PANEL, s.fresh);
            for (uint q = 0; q < (cells + 1) / 2; q++) {
                uint16 d[V];
                FOR_VECTORS_OF_ROW(h)
                    d[h] = *(local const uint16 *)(panel + q * PANEL + 16 * h);
                FOR_TILE(CB, b, h)
                    sum[b][h] = add_pairs(sum[b][h], (uint16)(strip[q * pitch + c + b]), d[h]);
            }
            put_tile(sum, tiles, column, to);
        }
    }
}
#else
static inline void multiply_cells(local const float *panel, const segment s, const cell_grid grid,
    const uint2 down, const uint2 across, const uint first_column, const uint channels,
    global const float *x, const ulong x_ld, global float *tiles, const destination to)
{
    /* Whole rows of cells lie side by side, as do whole images. */
    const uint wide = across.y - across.x, cells = (down.y - down.x) * wide;
    const bool rows_whole = wide == grid.cols;
    const bool whole = cells == (s.bottom - s.top) * grid.cols;
    const uint run = whole ? s.count * cells : rows_whole ? cells : wide;
    const uint lines = cells == 0 ? 0 : rows_whole ? 1 : down.y - down.x;
    for (uint c = 0; c < channels; c += CB) {
        const ulong column = (ulong)first_column + c;
        local const float *d = panel;
        float16 sum[CB][V];
        load_tile(sum, tiles + column * PANEL, s.fresh);
        for (uint m = 0; m < (whole ? 1 : s.count); m++)
            for (uint y = 0; y < lines; y++, d += run * PANEL) {
                const ulong row = (s.n + m) * grid.rows + down.x + y;
                add_rows(sum, d, x + (row * grid.cols + across.x) * x_ld + c, x_ld, run);
            }
        put_tile(sum, tiles, column, to);
    }
}
#endif

#if BF16
#define DEPTH_PARAMETER const uint depth,
#define STRIP_LOCAL     LOCAL_FLOATS(strip, STRIP);
#define STRIP_ARGUMENTS (local uint *)strip, depth,
#else
#define DEPTH_PARAMETER
#define STRIP_LOCAL
#define STRIP_ARGUMENTS
#endif

KERNEL_OF(1) conv_dw_pooled_vector(const ulong batch, const uint channels, const uint outputs,
    LAYER_PARAMETERS, const uint segment_height, const uint cell, const ulong images,
    const ulong panels, const ulong panel_run, DEPTH_PARAMETER MAT_IN_RESTRICT(x), MAT_IN_RESTRICT(dy),
    REGION_OUT(float, partial) DIRECT_ARGUMENTS)
{
    LOCAL_FLOATS(panel_floats, PANEL_ROWS * PANEL);
    local operand *panel = (local operand *)panel_floats;
    STRIP_LOCAL
    DIRECT_LOCAL
    const layer a = LAYER;
    const cell_grid grid = {
        (image_height + cell - 1) / cell, (image_width + cell - 1) / cell, cell};
    const share mine = share_of_group(batch, panels, panel_run);
    const ulong panel_size = (ulong)taps * channels * PANEL;
    partial += partial_offset + get_group_id(1) * panels * panel_size;

    for (ulong n = mine.first; n < mine.end; n += images)
        for (uint top = 0; top < grid.rows; top += segment_height) {
            const uint bottom = min(top + segment_height, grid.rows);
            const segment s = {n, (uint)min(images, mine.end - n), top, bottom,
                n == mine.first && top == 0, n + images >= mine.end && bottom == grid.rows};
            for (ulong p = mine.first_panel; p < mine.end_panel; p++) {
                const uint inside = (uint)min((ulong)PANEL, outputs - p * PANEL);
                const destination to = DESTINATION(s.last, p, inside);
                for (uint t = 0; t < taps; t++) {
                    const int2 shift = shift_of(a, t);
                    const uint2 down = cells_reached(
                        top, bottom, height, stride_y, shift.y, image_height, cell);
                    const uint2 across = cells_reached(
                        0, grid.cols, width, stride_x, shift.x, image_width, cell);
                    sum_cells(panel, s, ROW(dy, 0) + p * PANEL, dy_ld, inside, a, shift, cell,
                        down, across);
                    multiply_cells(panel, STRIP_ARGUMENTS s, grid, down, across, t * channels, channels, ROW(x, 0),
                        x_ld, partial + p * panel_size, to);
                }
            }
        }
}
