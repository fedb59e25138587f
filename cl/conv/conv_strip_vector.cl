/* Implicit product of a convolution for CPUs, from strips of the source that serve all taps.
 *
 *     to[result(u, v)][j] = bias[j] + sum over channels c and taps t of from[source(u, v, t)][c] * w_t[c][j]
 *
 * result, source and w_t are as in conv_vector.cl; the sum runs over the channels, and for each over the taps.
 * A work-group copies the source pixels of its results into a strip in local memory, with zeros for pixels
 * outside of the image. There each term is at a fixed offset from the result's pixel, and the pixels of a row
 * are adjacent:
 *
 *     strip[phase_y][slot][phase_x][c][x] = from[pixel ((slot + low_y) * step_y + first phase + phase_y, ...)][c]
 *
 *            strip                     w, packed by conv_weights.cl          to
 *      +---------------+                +----------------+             +--------------+
 *      |  MR pixels    |  at offsets[q] | q: PANEL       |   sum in    | MR pixels x  |  MR * V registers
 *      +---------------+                +----------------+  registers  | PANEL = 16 V |  of 16
 *      |  next slot    |                                               +--------------+
 *
 * One work-item a group; group (g, R) takes the panels [g * panel_run, (g + 1) * panel_run) of block R =
 * i * blocks + b: the grid's rows [b * high, (b + 1) * high) of the `images` images from i * images on;
 * images > 1 only if high is all of grid_height. An image in the block takes high + reach slots. The strip
 * holds `depth` channels at a time; from the second time on, the sum is added to `to`.
 * phases: 1 if all taps have the same phase, first_phase; else step, and first_phase is 0.
 * pitch: floats of a channel of a slot, a multiple of 16, at least the width in whole tiles plus the reach of
 * the taps. line_size: floats of all channels of a slot and phase, at least depth * pitch.
 *
 * With BF16 source and weights are floats, rounded to bf16: channels are too few for pairs of them.
 *
 * beta * `to` is added to the result; beta 0 does not read `to`, has_bias 0 does not read bias.
 *
 * Local memory: (STRIP + TERMS) * 4 bytes; depth * taps <= TERMS. */
#include "conv/pixels.clh"
#include "prelude/operand.clh"
#include "prelude/product_tile.clh"
#if !defined(STRIP) || !defined(TERMS)
#error "conv_strip_vector.cl needs STRIP and TERMS"
#endif

/* Coordinates of a source pixel on one axis: (at + low) * step + phase. */
typedef struct axis {
    uint size, step;
    int low;
    uint first_phase;
} axis;

static inline uint source_of(const axis a, const uint at, const uint phase)
{
    return (uint)(((int)at + a.low) * (int)a.step) + a.first_phase + phase;
}

/* strip[c * pitch + x] = channel c of pixel x of a source row and phase, for x < pitch; zeros outside of the
 * image. inside: the row is in the image. */
static inline void fill_row(local float *strip, const uint pitch,
    global const float *row, const ulong from_ld, const uint depth, const axis across,
    const uint phase, const bool inside)
{
    for (uint x = 0; x < pitch; x += 16, strip += 16) {
        global const float *pixel[16];
        uint there = 0;
        ROLLED for (uint i = 0; i < 16; i++) {
            const uint at = source_of(across, x + i, phase);
            const bool is = inside && at < across.size;
            pixel[i] = row + (is ? at : 0) * from_ld;
            there |= (uint)is << i;
        }
        uint c = 0;
        for (; c + 16 <= depth; c += 16) {
            float16 lines[16];
            UNROLLED(i, 16)
                lines[i] = there >> i & 1 ? ROUND16(LOAD16(pixel[i] + c)) : (float16)(0.0f);
            store_transposed16(lines, strip + c * pitch, pitch);
        }
        for (; c < depth; c++)
            UNROLLED(i, 16)
                strip[c * pitch + i] = there >> i & 1 ? ROUND(pixel[i][c]) : 0.0f;
    }
}

/* The strip of `count` images, `rows` rows of the grid of each. row_size: floats of a slot. */
typedef struct strip_shape {
    uint count, rows, reach, slots, phases_y, phases_x, pitch, line_size, row_size;
} strip_shape;

/* offsets[c * taps + t] = the offset in the strip of the source of grid pixel (0, 0) under tap t. */
static inline void list_offsets(local uint *offsets, const strip_shape s, const gather g,
    const int low_y, const int low_x, const uint depth, const uint taps)
{
    for (uint t = 0; t < taps; t++) {
        const int y = g.first_y + (int)(t / g.taps_x) * g.tap_step_y - low_y * (int)g.step_y;
        const int x = g.first_x + (int)(t % g.taps_x) * g.tap_step_x - low_x * (int)g.step_x;
        const uint phase_y = s.phases_y > 1 ? (uint)y % g.step_y : 0;
        const uint phase_x = s.phases_x > 1 ? (uint)x % g.step_x : 0;
        for (uint c = 0; c < depth; c++)
            offsets[c * taps + t] = (phase_y * s.count * s.slots + (uint)y / g.step_y) * s.row_size +
                                    phase_x * s.line_size + c * s.pitch + (uint)x / g.step_x;
    }
}

/* Fills the strip with `depth` channels of the images from `from` on. */
static inline void fill_strip(local float *strip, const strip_shape s, const axis down,
    const axis across, global const float *from, const ulong from_ld, const uint depth)
{
    for (uint p = 0; p < s.phases_y; p++)
        for (uint m = 0; m < s.count; m++)
            for (uint i = 0; i < s.rows + s.reach; i++) {
                const uint y = source_of(down, i, p);
                const bool inside = y < down.size;
                const ulong row = m * down.size + (inside ? y : 0);
                for (uint h = 0; h < s.phases_x; h++)
                    fill_row(strip + ((p * s.count + m) * s.slots + i) * s.row_size + h * s.line_size,
                        s.pitch, from + row * across.size * from_ld, from_ld, depth, across, h, inside);
            }
}

/* sum[r] += the terms of pixel r of `line`, each times a row of weights. */
static inline void add_terms(float16 sum[MR][V], local const float *line, local const uint *offsets,
    const uint terms, global const float *weights)
{
    for (uint q = 0; q < terms; q++, weights += PANEL) {
        local const float *source = line + offsets[q];
        float16 d[V];
        FOR_VECTORS_OF_ROW(h)
            d[h] = LOAD16(weights + 16 * h);
        FOR_TILE(MR, r, h)
            sum[r][h] = fma((float16)(source[r]), d[h], sum[r][h]);
    }
}

/* to[v * step][..] = the results of the `across` pixels of a row of the grid. */
static inline void multiply_row(local const float *line, local const uint *offsets, const uint terms,
    global const float *weights, const uint across, global float *to, const ulong step,
    const uint width, const float old, global const float *bias)
{
    for (uint v = 0; v < across; v += MR) {
        global float *place[MR];
        float16 sum[MR][V];
        UNROLLED(r, MR)
            place[r] = to + (v + r) * step;
        FOR_TILE(MR, r, h)
            sum[r][h] = (float16)(0.0f);
        add_terms(sum, line + v, offsets, terms, weights);
        finish_tile(sum, place, min((uint)MR, across - v), width, 1.0f, old, (tile_bias){bias, false});
    }
}

KERNEL_OF(1) conv_strip_vector(const ulong batch, const uint images, const uint high,
    const uint blocks, const ulong panel_run, const uint n, const uint k, const uint depth,
    const uint taps, GATHER_PARAMETERS, const int low_y, const int low_x, const uint reach_y,
    const uint phases_y, const uint phases_x, const uint first_phase_y, const uint first_phase_x,
    const uint pitch, const uint line_size, const float beta, const uint has_bias,
    MAT_IN_RESTRICT(from), REGION_IN(float, w), MAT_IN_RESTRICT(bias), MAT_OUT_RESTRICT(to))
{
    LOCAL_FLOATS(strip, STRIP);
    local uint offsets[TERMS];
    const uint first_panel = (uint)(get_group_id(0) * panel_run);
    const uint end_panel = (uint)min(first_panel + panel_run, ((ulong)n + PANEL - 1) / PANEL);
    const ulong first_image = get_group_id(1) / blocks * images;
    const uint top = (uint)(get_group_id(1) % blocks) * high;
    const axis down = {source_height, step_y, low_y + (int)top, first_phase_y};
    const axis across = {source_width, step_x, low_x, first_phase_x};
    const strip_shape s = {(uint)min((ulong)images, batch - first_image), min(high, grid_height - top),
        reach_y, high + reach_y, phases_y, phases_x, pitch, line_size, phases_x * line_size};
    const gather g = GATHER;
    w += w_offset;

    list_offsets(offsets, s, g, low_y, low_x, depth, taps);
    for (uint begin = 0; begin < k; begin += depth) {
        const bool is_first = begin == 0;
        const uint deep = min(depth, k - begin);
        fill_strip(strip, s, down, across,
            ROW(from, first_image * source_height * source_width) + begin, from_ld, deep);
        for (uint p = first_panel; p < end_panel; p++) {
            const uint column = p * PANEL, width = min((uint)PANEL, n - column);
            for (uint m = 0; m < s.count; m++)
                for (uint u = 0; u < s.rows; u++)
                    multiply_row(strip + (m * s.slots + u) * s.row_size, offsets, deep * taps,
                        w + ((ulong)p * k + begin) * taps * PANEL, grid_width,
                        ROW(to, result_pixel(g, first_image + m, top + u, 0)) + column,
                        spread_x * to_ld, width, is_first ? beta : 1.0f,
                        is_first && has_bias ? ROW(bias, 0) + column : 0);
        }
    }
}
