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
 *       dy, pixels of a segment       x, shifted by a tap          partial
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
 * DIRECT: there is one split, which writes its last sums to dw: dw[o][t * C + c], C a multiple of 16.
 *
 * Local memory: SEG * PANEL * 4 bytes, with DIRECT plus direct.clh's. CB divides C. */
#include "conv/direct.clh"
#include "conv/layer.clh"
#ifndef SEG
#error "conv_dw_vector.cl needs SEG"
#endif

/* Result pixels [top, bottom) x [left, right) of the `count` images from n on. fresh: the first segment of a
 * split, last: the last one. */
typedef struct segment {
    ulong n;
    uint count, top, bottom, left, right;
    bool fresh, last;
} segment;

/* panel[..] = the `inside` outputs from dy on of each pixel, image by image, row by row. */
static inline void copy_pixels(local float *panel, const segment s, const layer a,
    global const float *dy, const ulong dy_ld, const uint inside)
{
    for (uint m = 0; m < s.count; m++)
        for (uint u = s.top; u < s.bottom; u++)
            for (uint v = s.left; v < s.right; v++, panel += PANEL)
                copy_outputs(panel, dy + (((s.n + m) * a.height + u) * a.width + v) * dy_ld, inside);
}

/* sum += the results of rows x cols, each times CB channels of its source under the tap. */
static inline void add_sources(float16 sum[CB][V], local const float *panel, const segment s, const layer a,
    const int2 shift, const uint2 rows, const uint2 cols, global const float *x, const ulong x_ld)
{
    const uint across = s.right - s.left, image = (s.bottom - s.top) * across; /* in pixels */
    const uint source_x = (uint)((int)cols.x * a.stride_x + shift.x);
    for (uint m = 0; m < s.count; m++)
        for (uint u = rows.x; u < rows.y; u++) {
            const ulong source_y =
                (s.n + m) * a.image_height + (uint)((int)u * a.stride_y + shift.y);
            add_rows(sum, panel + (m * image + (u - s.top) * across + cols.x - s.left) * PANEL,
                x + (source_y * a.image_width + source_x) * x_ld, (ulong)a.stride_x * x_ld,
                cols.y - cols.x);
        }
}

/* Adds the products of the panel and the sources to the tiles of all taps and channels. */
static inline void multiply_taps(local const float *panel, const segment s, const layer a,
    const uint channels, global const float *x, const ulong x_ld, global float *tiles,
    const destination to)
{
    for (uint t = 0; t < a.taps; t++) {
        const int2 shift = shift_of(a, t);
        const uint2 rows = reaching(
            (int)s.top, (int)s.bottom, a.stride_y, shift.y, 0, (int)a.image_height);
        const uint2 cols = reaching(
            (int)s.left, (int)s.right, a.stride_x, shift.x, 0, (int)a.image_width);
        for (uint c = 0; c < channels; c += CB) {
            const ulong column = (ulong)t * channels + c;
            float16 sum[CB][V];
            load_tile(sum, tiles + column * PANEL, s.fresh);
            if (cols.x < cols.y)
                add_sources(sum, panel, s, a, shift, rows, cols, x + c, x_ld);
            put_tile(sum, tiles, column, to);
        }
    }
}

KERNEL_OF(1) conv_dw_vector(const ulong batch, const uint channels, const uint outputs,
    LAYER_PARAMETERS, const uint segment_height, const uint segment_width, const ulong images,
    const ulong panels, const ulong panel_run, MAT_IN_RESTRICT(x), MAT_IN_RESTRICT(dy),
    REGION_OUT(float, partial) DIRECT_ARGUMENTS)
{
    LOCAL_FLOATS(panel, SEG * PANEL);
    DIRECT_LOCAL
    const layer a = LAYER;
    const share mine = share_of_group(batch, panels, panel_run);
    const ulong panel_size = (ulong)taps * channels * PANEL;
    partial += partial_offset + get_group_id(1) * panels * panel_size;

    for (ulong n = mine.first; n < mine.end; n += images)
        for (uint top = 0; top < height; top += segment_height)
            for (uint left = 0; left < width; left += segment_width) {
                const uint bottom = min(top + segment_height, height);
                const uint right = min(left + segment_width, width);
                const segment s = {n, (uint)min(images, mine.end - n), top, bottom, left, right,
                    n == mine.first && top == 0 && left == 0,
                    n + images >= mine.end && bottom == height && right == width};
                for (ulong p = mine.first_panel; p < mine.end_panel; p++) {
                    const uint inside = (uint)min((ulong)PANEL, outputs - p * PANEL);
                    const destination to = DESTINATION(s.last, p, inside);
                    copy_pixels(panel, s, a, ROW(dy, 0) + p * PANEL, dy_ld, inside);
                    multiply_taps(
                        panel, s, a, channels, ROW(x, 0), x_ld, partial + p * panel_size, to);
                }
            }
}
