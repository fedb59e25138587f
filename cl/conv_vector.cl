/* Implicit product of a convolution for CPUs: each result pixel sums the source pixels under the taps.
 * The forward pass and dx are both of this kind; clprune__conv_gather (conv_private.h) has the terms.
 *
 *     to[result(r)][j] = bias[j] + sum over taps t and channels c of from[source(r, t)][c] * w_t[c][j]
 *     w_t[c][j]        = w[j][tap(t) * k + c], with BACK w[c][tap(t) * n + j]
 *
 *     r counts the pixels of the grid, r = (image * grid_height + u) * grid_width + v:
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
 * pixels [R * rows, (R + 1) * rows). Sums stay in registers for `run` taps, whose weights are to stay in
 * the second-level cache; then `to` is read and added to. The order of the sum is taps, then channels. There may be no taps: then `to` is bias, or 0. from_ld may be
 * less than k: a tap then reads the pixels behind its own, too.
 *
 * The result is this + beta * `to`; beta 0 does not read `to`, has_bias 0 does not read bias. `zeros` has k
 * zeros. w is the packed weights. */
#if !defined(V) || !defined(MR)
#error "conv_vector.cl needs V and MR"
#endif
#define PANEL (16 * V)

/* The pixels of a tile: where they are read, without their taps, and written. */
typedef struct pixels {
    global const float *image[MR];
    int y[MR], x[MR];
    global float *to[MR];
} pixels;

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_vector(const ulong rows_all,
    const ulong rows, const ulong panel_run, const uint n, const uint k, const uint taps,
    const uint run, const uint grid_height, const uint grid_width,
    const uint source_height, const uint source_width, const uint result_height,
    const uint result_width, const uint step_y, const uint step_x, const uint spread_y,
    const uint spread_x, const uint shift_y, const uint shift_x, const uint taps_x, const int first_y,
    const int first_x, const int tap_step_y, const int tap_step_x,
    const float beta, const uint has_bias, MAT_IN_RESTRICT(from), const ulong w_offset,
    global const float *restrict w, MAT_IN_RESTRICT(bias), MAT_IN_RESTRICT(zeros), MAT_OUT_RESTRICT(to))
{
    const uint first_panel = (uint)(get_group_id(1) * panel_run);
    const uint end_panel = (uint)min(first_panel + panel_run, ((ulong)n + PANEL - 1) / PANEL);
    const ulong first_row = get_group_id(0) * rows;
    const ulong last_row = min(first_row + rows, rows_all);
    global const float *nothing = ROW(zeros, 0);
    from_buffer += from_offset;
    w += w_offset;

    for (uint panel = first_panel; panel < end_panel; panel++) {
        const uint column = panel * PANEL, width = min((uint)PANEL, n - column);
        for (uint begin = 0; begin == 0 || begin < taps; begin += run) {
            const uint end = min(begin + run, taps);
            global const float *packed = w + ((ulong)panel * taps + begin) * k * PANEL;
            for (ulong row = first_row; row < last_row; row += MR) {
                const uint height = (uint)min((ulong)MR, last_row - row);
                pixels at;
                uint v = (uint)(row % grid_width), u = (uint)(row / grid_width % grid_height);
                ulong image = row / grid_width / grid_height;
#pragma unroll
                for (uint r = 0; r < MR; r++) {
                    at.image[r] = from_buffer + image * source_height * source_width * from_ld;
                    at.y[r] = (int)(u * step_y) + first_y;
                    at.x[r] = (int)(v * step_x) + first_x;
                    at.to[r] = ROW(to, (image * result_height + u * spread_y + shift_y) * result_width +
                                           v * spread_x + shift_x) + column;
                    if (r + 1 < height && ++v == grid_width) { /* those beyond `height` repeat the last */
                        v = 0;
                        if (++u == grid_height) {
                            u = 0;
                            image++;
                        }
                    }
                }
                float16 sum[MR][V];
#pragma unroll
                for (uint r = 0; r < MR; r++)
#pragma unroll
                    for (int i = 0; i < V; i++) {
                        sum[r][i] = (float16)(0.0f);
                        PREFETCH_WRITE(at.to[r] + 16 * i);
                    }
                global const float *weights = packed;
                for (uint t = begin; t < end; t++) {
                    const int y = (int)(t / taps_x) * tap_step_y, x = (int)(t % taps_x) * tap_step_x;
                    global const float *source[MR];
#pragma unroll
                    for (uint r = 0; r < MR; r++) {
                        const uint i = (uint)(at.y[r] + y), j = (uint)(at.x[r] + x);
                        source[r] = i < source_height && j < source_width
                                        ? at.image[r] + ((ulong)i * source_width + j) * from_ld
                                        : nothing;
                    }
                    for (ulong i = 0; i < k; i++, weights += PANEL) {
                        float16 d[V];
#pragma unroll
                        for (int h = 0; h < V; h++)
                            d[h] = LOAD16(weights + 16 * h);
#pragma unroll
                        for (uint r = 0; r < MR; r++) {
                            const float16 x = source[r][i];
#pragma unroll
                            for (int h = 0; h < V; h++)
                                sum[r][h] = fma(x, d[h], sum[r][h]);
                        }
                    }
                }
                if (width == PANEL && height == MR) {
#pragma unroll
                    for (uint r = 0; r < MR; r++)
#pragma unroll
                        for (int h = 0; h < V; h++) {
                            float16 value = sum[r][h];
                            if (begin > 0)
                                value += LOAD16(at.to[r] + 16 * h);
                            if (begin == 0 && has_bias)
                                value += LOAD16(ROW(bias, 0) + column + 16 * h);
                            if (begin == 0 && beta != 0.0f)
                                value = fma((float16)(beta), LOAD16(at.to[r] + 16 * h), value);
                            STORE16(value, at.to[r] + 16 * h);
                        }
                    continue;
                }
                float tile[MR * PANEL];
#pragma unroll
                for (uint r = 0; r < MR; r++)
#pragma unroll
                    for (int h = 0; h < V; h++)
                        vstore16(sum[r][h], r * V + h, tile);
                for (uint r = 0; r < height; r++)
                    for (uint j = 0; j < width; j++) {
                        float value = tile[r * PANEL + j];
                        if (begin > 0)
                            value += at.to[r][j];
                        if (begin == 0 && has_bias)
                            value += AT(bias, 0, column + j);
                        if (begin == 0 && beta != 0.0f)
                            value = fma(beta, at.to[r][j], value);
                        at.to[r][j] = value;
                    }
            }
        }
    }
}
