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
 * beta * `to` is added to the result; beta 0 does not read `to`, has_bias 0 does not read bias.
 *
 * Local memory: (STRIP + TERMS) * 4 bytes; depth * taps <= TERMS. */
#include "prelude/panel.clh"
#if !defined(V) || !defined(MR) || !defined(STRIP) || !defined(TERMS)
#error "conv_strip_vector.cl needs V, MR, STRIP and TERMS"
#endif
#define PANEL (16 * V)

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
#pragma unroll
        for (uint i = 0; i < 16; i++) {
            const uint at = source_of(across, x + i, phase);
            const bool is = inside && at < across.size;
            pixel[i] = row + (is ? at : 0) * from_ld;
            there |= (uint)is << i;
        }
        uint c = 0;
        for (; c + 16 <= depth; c += 16) {
            float16 lines[16];
#pragma unroll
            for (uint i = 0; i < 16; i++)
                lines[i] = there >> i & 1 ? LOAD16(pixel[i] + c) : (float16)(0.0f);
            store_transposed16(lines, strip + c * pitch, pitch);
        }
        for (; c < depth; c++)
#pragma unroll
            for (uint i = 0; i < 16; i++)
                strip[c * pitch + i] = there >> i & 1 ? pixel[i][c] : 0.0f;
    }
}

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_strip_vector(const ulong batch,
    const uint images, const uint high, const uint blocks, const ulong panel_run, const uint n,
    const uint k, const uint depth, const uint taps, const uint grid_height, const uint grid_width,
    const uint source_height, const uint source_width, const uint result_height,
    const uint result_width, const uint step_y, const uint step_x, const uint spread_y,
    const uint spread_x, const uint shift_y, const uint shift_x, const uint taps_x,
    const int first_y, const int first_x, const int tap_step_y, const int tap_step_x,
    const int low_y, const int low_x, const uint reach_y, const uint phases_y, const uint phases_x,
    const uint first_phase_y, const uint first_phase_x, const uint pitch, const uint line_size,
    const float beta, const uint has_bias, MAT_IN_RESTRICT(from),
    const ulong w_offset, global const float *restrict w, MAT_IN_RESTRICT(bias), MAT_OUT_RESTRICT(to))
{
    local float16 strip_vectors[STRIP / 16]; /* as vectors, for their alignment */
    local float *strip = (local float *)strip_vectors;
    local uint offsets[TERMS];
    const uint first_panel = (uint)(get_group_id(0) * panel_run);
    const uint end_panel = (uint)min(first_panel + panel_run, ((ulong)n + PANEL - 1) / PANEL);
    const ulong first_image = get_group_id(1) / blocks * images;
    const uint count = (uint)min((ulong)images, batch - first_image);
    const uint top = (uint)(get_group_id(1) % blocks) * high;
    const uint rows = min(high, grid_height - top);
    const uint slots = high + reach_y;
    const axis down = {source_height, step_y, low_y + (int)top, first_phase_y};
    const axis across = {source_width, step_x, low_x, first_phase_x};
    const uint row_size = phases_x * line_size;
    w += w_offset;

    for (uint t = 0; t < taps; t++) {
        const int y = first_y + (int)(t / taps_x) * tap_step_y - low_y * (int)step_y;
        const int x = first_x + (int)(t % taps_x) * tap_step_x - low_x * (int)step_x;
        const uint phase_y = phases_y > 1 ? (uint)y % step_y : 0;
        const uint phase_x = phases_x > 1 ? (uint)x % step_x : 0;
        for (uint c = 0; c < depth; c++)
            offsets[c * taps + t] = (phase_y * count * slots + (uint)y / step_y) * row_size +
                                    phase_x * line_size + c * pitch + (uint)x / step_x;
    }
    for (uint begin = 0; begin < k; begin += depth) {
        const uint deep = min(depth, k - begin);
        for (uint p = 0; p < phases_y; p++)
            for (uint m = 0; m < count; m++)
                for (uint s = 0; s < rows + reach_y; s++) {
                    const uint y = source_of(down, s, p);
                    const bool inside = y < source_height;
                    for (uint h = 0; h < phases_x; h++)
                        fill_row(strip + ((p * count + m) * slots + s) * row_size + h * line_size,
                            pitch,
                            ROW(from, ((first_image + m) * source_height + (inside ? y : 0)) *
                                          source_width) +
                                begin,
                            from_ld, deep, across, h, inside);
                }
        const uint terms = deep * taps;
        for (uint p = first_panel; p < end_panel; p++) {
            const uint column = p * PANEL, width = min((uint)PANEL, n - column);
            global const float *packed = w + ((ulong)p * k + begin) * taps * PANEL;
            for (uint m = 0; m < count; m++)
                for (uint u = 0; u < rows; u++) {
                    local const float *line = strip + (m * slots + u) * row_size;
                    global float *result =
                        ROW(to, ((first_image + m) * result_height + (top + u) * spread_y + shift_y) *
                                        result_width +
                                    shift_x) +
                        column;
                    const ulong pixel = spread_x * to_ld;
                    for (uint v = 0; v < grid_width; v += MR) {
                        const uint across_tile = min((uint)MR, grid_width - v);
                        float16 sum[MR][V];
#pragma unroll
                        for (uint r = 0; r < MR; r++)
#pragma unroll
                            for (int h = 0; h < V; h++)
                                sum[r][h] = (float16)(0.0f);
                        global const float *weights = packed;
                        for (uint q = 0; q < terms; q++, weights += PANEL) {
                            local const float *source = line + v + offsets[q];
                            float16 d[V];
#pragma unroll
                            for (int h = 0; h < V; h++)
                                d[h] = LOAD16(weights + 16 * h);
#pragma unroll
                            for (uint r = 0; r < MR; r++)
#pragma unroll
                                for (int h = 0; h < V; h++)
                                    sum[r][h] = fma((float16)(source[r]), d[h], sum[r][h]);
                        }
                        global float *at = result + v * pixel;
                        float tile[MR * PANEL];
#pragma unroll
                        for (uint r = 0; r < MR; r++)
#pragma unroll
                            for (int h = 0; h < V; h++)
                                vstore16(sum[r][h], r * V + h, tile);
                        for (uint r = 0; r < across_tile; r++) {
                            uint j = 0;
                            for (; j + 16 <= width; j += 16) {
                                global float *place = at + r * pixel + j;
                                float16 value = *(private const float16_anywhere *)(tile + r * PANEL + j);
                                if (begin > 0)
                                    value += LOAD16(place);
                                if (begin == 0 && has_bias)
                                    value += LOAD16(ROW(bias, 0) + column + j);
                                if (begin == 0 && beta != 0.0f)
                                    value = fma((float16)(beta), LOAD16(place), value);
                                STORE16(value, place);
                            }
                            for (; j < width; j++) {
                                global float *place = at + r * pixel + j;
                                float value = tile[r * PANEL + j];
                                if (begin > 0)
                                    value += *place;
                                if (begin == 0 && has_bias)
                                    value += AT(bias, 0, column + j);
                                if (begin == 0 && beta != 0.0f)
                                    value = fma(beta, *place, value);
                                *place = value;
                            }
                        }
                    }
                }
        }
    }
}
