/* Implicit product of a convolution for CPUs: each result pixel sums the source pixels under the taps. It
 * serves the forward pass and dx; clprune__conv_gather (conv_private.h) describes the sizes.
 *
 *     to[result(r)][j] = bias[j] + sum over taps t and channels c of from[source(r, t)][c] * w_t[c][j]
 *     w_t[c][j]        = w[j][tap(t) * k + c], with BACK w[c][tap(t) * n + j]
 *
 *     r counts the pixels of the grid. Images are taken in blocks of `block`, the last block may be smaller;
 *     in a block, the pixels of one position (u, v) are adjacent: r = b * block * grid_height * grid_width +
 *     (u * grid_width + v) * images + i, image(r) = b * block + i, i < images <= block
 *     result(r)    = pixel (u * spread_y + shift_y, v * spread_x + shift_x) of `to`
 *     source(r, t) = pixel (u * step_y + first_y + i * tap_step_y, v * step_x + ...) of `from`,
 *                    t = i * taps_x + j; zeros outside of the image
 *     tap(t)       = (weight_y + i * weight_step_y) * kernel_width + weight_x + j * weight_step_x
 *
 *        w_t, packed by conv_weights.cl            to
 *            +------+-------+------+              +--------------+
 *            |      | panel |      |              | MR pixels x  |   MR * V registers of 16
 *            |      |       |      |              | PANEL = 16 V |
 *            +------+-------+------+              +--------------+
 *
 * One work-item a group; group (R, g) takes the panels [g * panel_run, (g + 1) * panel_run) of the
 * pixels [R * rows, (R + 1) * rows). Sums stay in registers for `run` taps, whose weights fit the second-level
 * cache; from the second run on, the sum is added to `to`. The sum runs over the taps, and for each over the
 * channels. Taps that lie in the padding for all pixels of a tile are skipped: 18 % of 3 x 3 taps for images of
 * 7 x 7 pixels, if the pixels of a tile have one position. Without taps the sum is 0. from_ld may be less than
 * k: a pixel's channels then continue in the next pixels.
 *
 * With BF16 a channel is a pair of them: `from`, packed by conv_pairs.cl, and w have words of bf16 in place of
 * floats.
 *
 * beta * `to` is added to the result; beta 0 does not read `to`, has_bias 0 does not read bias. w is the packed
 * weights, with k zeros behind them. */
#include "conv/pixels.clh"
#include "prelude/operand.clh"
#include "prelude/product_tile.clh"

/* The pixels of a tile: their source image, the source coordinates before a tap is added, their results. */
typedef struct pixels {
    global const operand *image[MR];
    int y[MR], x[MR];
    global float *to[MR];
} pixels;

typedef struct grid_size {
    ulong batch, block;
    uint height, width;
} grid_size;

/* Pixel (u, v) of the grid of image first + i, one of the `images` of a block. */
typedef struct place {
    ulong first, images, i;
    uint u, v;
} place;

static inline place place_of(const ulong row, const grid_size grid)
{
    place p;
    p.first = row / grid.width / grid.height / grid.block * grid.block;
    p.images = min(grid.block, grid.batch - p.first);
    const ulong inner = row - p.first * grid.height * grid.width, pixel = inner / p.images;
    p.i = inner % p.images;
    p.u = (uint)(pixel / grid.width);
    p.v = (uint)(pixel % grid.width);
    return p;
}

static inline place next_place(place p, const grid_size grid)
{
    if (++p.i < p.images)
        return p;
    p.i = 0;
    if (++p.v < grid.width)
        return p;
    p.v = 0;
    if (++p.u < grid.height)
        return p;
    p.u = 0;
    p.first += p.images;
    p.images = min(grid.block, grid.batch - p.first);
    return p;
}

/* Locates the pixels from `row` on; those beyond `height` repeat the last one. from, to: pixel 0. */
static inline void locate(pixels *at, const ulong row, const uint height, const grid_size grid,
    const gather g, global const operand *from, const ulong from_ld, global float *to, const ulong to_ld)
{
    place p = place_of(row, grid);
    ROLLED for (uint r = 0; r < MR; r++) {
        const ulong image = p.first + p.i;
        at->image[r] = from + image * g.source_height * g.source_width * from_ld;
        at->y[r] = (int)(p.u * g.step_y) + g.first_y;
        at->x[r] = (int)(p.v * g.step_x) + g.first_x;
        at->to[r] = to + result_pixel(g, image, p.u, p.v) * to_ld;
        if (r + 1 < height)
            p = next_place(p, grid);
    }
}

/* source[r] = the source of pixel r under tap t, or `nothing` outside of the image. Returns whether any pixel
 * has a source. */
static inline bool find_sources(global const operand *source[MR], const pixels *at, const uint t,
    const gather g, const ulong from_ld, global const operand *nothing)
{
    const int y = (int)(t / g.taps_x) * g.tap_step_y, x = (int)(t % g.taps_x) * g.tap_step_x;
    bool any = false;
    ROLLED for (uint r = 0; r < MR; r++) {
        const uint i = (uint)(at->y[r] + y), j = (uint)(at->x[r] + x);
        const bool inside = i < g.source_height && j < g.source_width;
        source[r] = inside ? at->image[r] + ((ulong)i * g.source_width + j) * from_ld : nothing;
        any |= inside;
    }
    return any;
}

/* sum += the k channels of each source times the weights of a tap. */
static inline void add_channels(float16 sum[MR][V], global const operand *source[MR],
    global const operand *weights, const uint k)
{
    for (ulong c = 0; c < k; c++, weights += PANEL) {
        operand16 d[V];
        FOR_VECTORS_OF_ROW(h)
            d[h] = *(global const operand16_anywhere *)(weights + 16 * h);
        FOR_TILE(MR, r, h)
            sum[r][h] = MULTIPLY_ADD(source[r][c], d[h], sum[r][h]);
    }
}

KERNEL_OF(1) conv_vector(const ulong rows_all, const ulong rows, const ulong panel_run,
    const uint n, const uint k, const uint taps, const uint run, const ulong batch,
    const ulong block, GATHER_PARAMETERS, const float beta, const uint has_bias,
    MAT_IN_RESTRICT(from), REGION_IN(operand, w), MAT_IN_RESTRICT(bias), MAT_OUT_RESTRICT(to))
{
    const uint first_panel = (uint)(get_group_id(1) * panel_run);
    const uint end_panel = (uint)min(first_panel + panel_run, ((ulong)n + PANEL - 1) / PANEL);
    const ulong first_row = get_group_id(0) * rows;
    const ulong last_row = min(first_row + rows, rows_all);
    const grid_size grid = {batch, block, grid_height, grid_width};
    const gather g = GATHER;
    w += w_offset;
    global const operand *first_source = (global const operand *)ROW(from, 0), *nothing = w + ((ulong)n + PANEL - 1) / PANEL * PANEL * taps * k;

    for (uint panel = first_panel; panel < end_panel; panel++) {
        const uint column = panel * PANEL, width = min((uint)PANEL, n - column);
        for (uint begin = 0; begin == 0 || begin < taps; begin += run) {
            const bool is_first = begin == 0;
            const uint end = min(begin + run, taps);
            for (ulong row = first_row; row < last_row; row += MR) {
                const uint height = (uint)min((ulong)MR, last_row - row);
                global const operand *weights = w + ((ulong)panel * taps + begin) * k * PANEL;
                pixels at;
                float16 sum[MR][V];
                locate(&at, row, height, grid, g, first_source, from_ld, ROW(to, 0) + column, to_ld);
                begin_tile(sum, at.to);
                for (uint t = begin; t < end; t++, weights += k * PANEL) {
                    global const operand *source[MR];
                    if (find_sources(source, &at, t, g, from_ld, nothing))
                        add_channels(sum, source, weights, k);
                }
                const tile_bias of_columns = {is_first && has_bias ? ROW(bias, 0) + column : 0, false};
                finish_tile(sum, at.to, height, width, 1.0f, is_first ? beta : 1.0f, of_columns);
            }
        }
    }
}
