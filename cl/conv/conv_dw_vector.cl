/* Weight gradient of a convolution for CPUs: partial sums over result pixels of dy^T * (source under a tap).
 *
 *     partial[split][P][t * C + c][i] = sum over the images n of `split` and the result pixels (u, v) of
 *                                       dy[n, u, v][P * PANEL + i] * x[n, source(u, v, t)][c]
 *     source(u, v, t) = (u * stride_y + t / kernel_width * dilation_y - padding_y, likewise),
 *                       zeros outside of the image
 *
 * P counts panels of PANEL = 16 * V outputs; x has C channels; x_ld may be less than C (a pixel's channels
 * then continue in the next pixels).
 *
 *       dy, `segment` pixels rows     x, shifted by a tap          partial
 *     +----+------+-----+            +-----+----+-----+          +------------------+
 *     |    |panel |     |   u, v ->  |     |    |     |          | CB x PANEL tile  |  in registers
 *     |    |(local|     |            |     |    |     |          +------------------+
 *     +----+------+-----+            +-----+----+-----+
 *
 * One work-item a group; group (g, split) takes the panels [g * panel_run, (g + 1) * panel_run) in turn.
 * A segment is segment_height x segment_width result pixels of `images` images, at most SEG pixels; `images`
 * is above 1 only for whole images. Its panel of dy is copied to local memory and serves all taps and
 * channels: for each tap the result pixels whose source is inside the image form a rectangle.
 *
 * POOLED: x holds the means of cells of cell x cell source pixels; segments are segment_height whole
 * rows of cells, of `images` images. The panel then holds, for one tap at a time, the sum of dy over the
 * result pixels whose source is in each cell:
 *
 *     partial[...][t * C + c][i] = sum over n and the cells k of
 *                                  (sum over (u, v) with source(u, v, t) in k of dy[..][..]) * x[n, k][c]
 *
 * for the rectangle of cells that the tap reaches; at a border, padding may exclude a row or column.
 *
 * DIRECT: there is one split, which writes its last sums to dw: dw[o][t * C + c], C a multiple of 16.
 *
 * Local memory: SEG * PANEL * 4 bytes, with DIRECT plus direct.clh's. CB divides C, CB * V accumulators. */
#include "conv/direct.clh"
#if !defined(SEG) || !defined(POOLED)
#error "conv_dw_vector.cl needs SEG and POOLED"
#endif

#define LOAD_TILE(tile)                                                                            \
    float16 sum[CB][V];                                                                            \
    _Pragma("unroll") for (int b = 0; b < CB; b++) _Pragma("unroll") for (int h = 0; h < V; h++)   \
        sum[b][h] = fresh ? (float16)(0.0f) : LOAD16(tile + 16 * (b * V + h))
#define STORE_TILE(tile)                                                                           \
    IF_DIRECT(if (last) write_tile(sum, c, columns, space, inside, beta,                           \
                  &AT(dw, p * PANEL, t * channels), dw_ld);                                        \
              else)                                                                                \
    {                                                                                              \
        _Pragma("unroll") for (int b = 0; b < CB; b++)                                             \
            _Pragma("unroll") for (int h = 0; h < V; h++)                                          \
                STORE16(sum[b][h], tile + 16 * (b * V + h));                                       \
    }

/* sum += d of `count` pixels times their channels, `step` floats apart. */
#define ADD_PIXELS(d, pixel, step, count)                                                          \
    for (uint e = 0; e < (count); e++, d += PANEL, pixel += (step)) {                              \
        float16 outputs_of[V];                                                                     \
        _Pragma("unroll") for (int h = 0; h < V; h++) outputs_of[h] = vload16(h, d);               \
        _Pragma("unroll") for (int b = 0; b < CB; b++) _Pragma("unroll") for (int h = 0; h < V; h++) \
            sum[b][h] = fma((float16)(pixel[b]), outputs_of[h], sum[b][h]);                        \
    }

/* The results u of an axis, low <= u < high, whose source is in [from, to): from <= u * stride + shift < to. */
static inline uint2 reaching(const int low, const int high, const int stride, const int shift,
    const int from, const int to)
{
    const int first = from - shift, last = to - 1 - shift; /* of u * stride */
    const int begin = first <= 0 ? 0 : (first + stride - 1) / stride;
    const int end = last < 0 ? 0 : last / stride + 1;
    const int a = max(begin, low), b = min(end, high);
    return (uint2)((uint)a, (uint)max(a, b));
}

/* Sizes of a layer, as the kernel's arguments. */
typedef struct layer {
    uint image_height, image_width, height, width, kernel_width;
    int stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
} layer;

/* source(u, v, t) - (u * stride_y, v * stride_x): .y is the row, .x the column. */
static inline int2 shift_of(const layer a, const uint t)
{
    return (int2)((int)(t % a.kernel_width) * a.dilation_x - a.padding_x,
        (int)(t / a.kernel_width) * a.dilation_y - a.padding_y);
}

/* The cells of an axis within [low, high), from the first to the last that holds a source of one of the
 * `results` pixels. */
static inline uint2 cells_reached(const uint low, const uint high, const uint results,
    const int stride, const int shift, const uint image, const uint cell)
{
    const uint2 u = reaching(0, (int)results, stride, shift, 0, (int)image);
    if (u.x == u.y)
        return (uint2)(low, low);
    const uint a = max(low, (uint)((int)u.x * stride + shift) / cell);
    return (uint2)(a, max(a, min(high, (uint)((int)(u.y - 1) * stride + shift) / cell + 1)));
}

/* panel[..] = for each cell in rows [down.x, down.y) and columns [across.x, across.y) of an image, the sum of
 * dy over the result pixels whose source under the tap is in the cell. `inside` outputs exist from dy on. */
static inline void sum_cells(local float *panel, global const float *dy, const ulong dy_ld,
    const uint inside, const layer a, const int shift_y, const int shift_x, const uint cell,
    const uint2 down, const uint2 across)
{
    for (uint y = down.x * cell; y < min(down.y * cell, a.image_height); y += cell) {
        const uint2 rows = reaching(0, (int)a.height, a.stride_y, shift_y, (int)y,
            (int)min(y + cell, a.image_height));
        for (uint x = across.x * cell; x < min(across.y * cell, a.image_width);
             x += cell, panel += PANEL) {
            const uint2 cols = reaching(0, (int)a.width, a.stride_x, shift_x, (int)x,
                (int)min(x + cell, a.image_width));
            float16 total[V];
#pragma unroll
            for (int h = 0; h < V; h++)
                total[h] = (float16)(0.0f);
            for (uint u = rows.x; u < rows.y; u++)
                for (uint v = cols.x; v < cols.y; v++) {
                    global const float *from = dy + ((ulong)u * a.width + v) * dy_ld;
                    float part[PANEL];
                    if (inside < PANEL)
                        for (uint j = 0; j < PANEL; j++)
                            part[j] = j < inside ? from[j] : 0.0f;
#pragma unroll
                    for (int h = 0; h < V; h++)
                        total[h] += inside == PANEL ? LOAD16(from + 16 * h) : vload16(h, part);
                }
#pragma unroll
            for (int h = 0; h < V; h++)
                vstore16(total[h], h, panel);
        }
    }
}

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_dw_vector(const ulong batch,
    const uint channels, const uint outputs, const uint image_height, const uint image_width,
    const uint height, const uint width, const uint taps, const uint kernel_width, const int stride_y,
    const int stride_x, const int padding_y, const int padding_x, const int dilation_y,
    const int dilation_x, const uint segment_height, const uint segment_width, const ulong images,
    const uint cell, const ulong panels, const ulong panel_run, MAT_IN_RESTRICT(x), MAT_IN_RESTRICT(dy),
    const ulong partial_offset, global float *restrict partial DIRECT_ARGUMENTS)
{
    local float16 panel_vectors[SEG * V]; /* as vectors, for their alignment */
    IF_DIRECT(local float16 columns[16 * V], space[16];)
    local float *panel = (local float *)panel_vectors;
    const layer a = {image_height, image_width, height, width, kernel_width, stride_y, stride_x,
        padding_y, padding_x, dilation_y, dilation_x};
    const ulong first_panel = get_group_id(0) * panel_run;
    const ulong end_panel = min(first_panel + panel_run, panels);
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    const ulong first_image = split * batch / splits, end_image = (split + 1) * batch / splits;
    const ulong panel_size = (ulong)taps * channels * PANEL;
    partial += partial_offset + split * panels * panel_size;
#if POOLED
    const uint rows_all = (image_height + cell - 1) / cell;
    const uint cols_all = (image_width + cell - 1) / cell;
#else
    const uint rows_all = height, cols_all = width;
#endif

    for (ulong n = first_image; n < end_image; n += images)
        for (uint top = 0; top < rows_all; top += segment_height)
            for (uint left = 0; left < cols_all; left += segment_width) {
                const bool fresh = n == first_image && top == 0 && left == 0;
                const uint count = (uint)min(images, end_image - n);
                const uint bottom = min(top + segment_height, rows_all);
                const uint right = min(left + segment_width, cols_all);
                const uint across = right - left, pixels = (bottom - top) * across;
                IF_DIRECT(const bool last =
                              n + images >= end_image && bottom == rows_all && right == cols_all;)
                for (ulong p = first_panel; p < end_panel; p++) {
                    const uint inside = (uint)min((ulong)PANEL, outputs - p * PANEL);
                    global float *tile = partial + p * panel_size;
#if POOLED
                    for (uint t = 0; t < taps; t++) {
                        const int shift_y = shift_of(a, t).y, shift_x = shift_of(a, t).x;
                        const uint2 down = cells_reached(
                            top, bottom, height, stride_y, shift_y, image_height, cell);
                        const uint2 cols = cells_reached(
                            0, cols_all, width, stride_x, shift_x, image_width, cell);
                        const uint wide = cols.y - cols.x, cells = (down.y - down.x) * wide;
                        for (uint m = 0; m < count; m++)
                            sum_cells(panel + m * cells * PANEL,
                                ROW(dy, (n + m) * height * width) + p * PANEL, dy_ld, inside, a,
                                shift_y, shift_x, cell, down, cols);
                        /* Whole rows of cells lie side by side, as do whole images. */
                        const bool rows_whole = wide == cols_all, whole = cells == pixels;
                        const uint run = whole ? count * pixels : rows_whole ? cells : wide;
                        const uint lines = cells == 0 ? 0 : rows_whole ? 1 : down.y - down.x;
                        for (uint c = 0; c < channels; c += CB, tile += CB * PANEL) {
                            LOAD_TILE(tile);
                            local const float *d = panel;
                            for (uint m = 0; m < (whole ? 1 : count); m++)
                                for (uint y = 0; y < lines; y++) {
                                    global const float *pixel =
                                        ROW(x, ((n + m) * rows_all + down.x + y) * cols_all +
                                                   cols.x) +
                                        c;
                                    ADD_PIXELS(d, pixel, x_ld, run)
                                }
                            STORE_TILE(tile);
                        }
                    }
#else
                    local float *to = panel;
                    for (uint m = 0; m < count; m++)
                        for (uint u = top; u < bottom; u++)
                            for (uint v = left; v < right; v++, to += PANEL)
                                copy_outputs(to,
                                    ROW(dy, ((n + m) * height + u) * width + v) + p * PANEL, inside);
                    for (uint t = 0; t < taps; t++) {
                        const int shift_y = shift_of(a, t).y, shift_x = shift_of(a, t).x;
                        const uint2 rows = reaching(
                            (int)top, (int)bottom, stride_y, shift_y, 0, (int)image_height);
                        const uint2 cols = reaching(
                            (int)left, (int)right, stride_x, shift_x, 0, (int)image_width);
                        for (uint c = 0; c < channels; c += CB, tile += CB * PANEL) {
                            LOAD_TILE(tile);
                            for (uint m = 0; m < count; m++)
                                for (uint u = rows.x; u < rows.y && cols.x < cols.y; u++) {
                                    const ulong source_row =
                                        (n + m) * image_height + (uint)((int)u * stride_y + shift_y);
                                    local const float *d =
                                        panel +
                                        (m * pixels + (u - top) * across + cols.x - left) * PANEL;
                                    global const float *pixel =
                                        ROW(x, source_row * image_width +
                                                   (uint)((int)cols.x * stride_x + shift_x)) +
                                        c;
                                    ADD_PIXELS(d, pixel, (ulong)stride_x * x_ld, cols.y - cols.x)
                                }
                            STORE_TILE(tile);
                        }
                    }
#endif
                }
            }
}
