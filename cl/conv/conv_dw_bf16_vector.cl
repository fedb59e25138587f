/* Weight gradient of a convolution for CPUs, with x and dy rounded to bf16: partial sums as in conv_dw_vector.cl,
 * whose sizes, groups, segments and DIRECT it has.
 *
 * The sum runs over pairs of neighbouring result pixels (u, left + 2 i) and (u, left + 2 i + 1) of a segment's
 * row. A group packs, for all rows u of the images m,
 *
 *     panel[m][u][i][o]       = the pair of dy[.., o]
 *     strip[m][r][b][i][c]    = the pair of x[source row r, source column under tap column b][c], zeros outside
 *                               of the image or the segment
 *
 *       panel                         strip                         partial
 *     +--------------+            +--------------+              +------------------+
 *     | pair: PANEL  |    i ->    | pair: depth  |              | CB x PANEL tile  |  in registers
 *     +--------------+            +--------------+              +------------------+
 *
 * The strip serves a window of tap_rows x tap_cols taps and `depth` channels, a multiple of CB, at a time: row r
 * is image row (top * stride_y + shift of the first tap) + r * row_step. row_step is 1, or stride_y if tap_rows
 * is 1. With DIRECT 16 divides depth. segment_width is even. With BITS 16 x is quantised (quantise.clh).
 *
 * Local memory: (SEG * PANEL + STRIP) * 4 bytes, SEG in pairs, with DIRECT plus direct.clh's. CB divides C. */
#include "conv/direct.clh"
#include "conv/layer.clh"
#include "prelude/pairs.clh"
#include "prelude/quantise.clh"
#if !defined(SEG) || !defined(STRIP)
#error "conv_dw_bf16_vector.cl needs SEG and STRIP"
#endif

/* x as a parameter and its rows of x_type; PAIRS(low, first, high, second): the pairs of the first `first` and
 * `second` elements, at most 16, from low and high on, and zeros. */
#ifdef BITS
#define CONV_DW_BF16    conv_dw_bf16_vector_quantised
#define X_IN            QUANTISED_IN(x)
#define X_FIRST         ((global const ushort *)(x_codes + x_codes_offset))
#define X_LD            (2 * x_ld)
typedef ushort x_type;
typedef ushort16 __attribute__((aligned(2))) ushort16_anywhere;
static inline uint16 codes16(global const ushort *from, const uint count)
{
    if (count >= 16)
        return convert_uint16(*(global const ushort16_anywhere *)from);
    uint codes[16];
    for (uint i = 0; i < 16; i++)
        codes[i] = i < count ? from[i] : 0u;
    return vload16(0, codes);
}
#define PAIRS(low, first, high, second) (codes16(low, first) | codes16(high, second) << 16)
#else
#define CONV_DW_BF16 conv_dw_bf16_vector
#define X_IN         MAT_IN_RESTRICT(x)
#define X_FIRST      ROW(x, 0)
#define X_LD         x_ld
typedef float x_type;
#define PAIRS(low, first, high, second) round_pairs(first16(low, first), first16(high, second))
#endif

/* Result pixels [top, bottom) x [left, right) of the `count` images from n on; wide: pairs of a row. fresh: the
 * first segment of a split, last: the last one. */
typedef struct segment {
    ulong n;
    uint count, top, bottom, left, right, wide;
    bool fresh, last;
} segment;

/* The taps and channels of a strip. pitch: words of a pair, at least depth. */
typedef struct window {
    uint first_row, rows, first_col, cols, row_step, first_channel, depth, pitch;
} window;

/* Rows of the strip for an image. */
static inline uint strip_rows(const segment s, const layer a, const window w)
{
    return ((s.bottom - 1 - s.top) * (uint)a.stride_y + (w.rows - 1) * (uint)a.dilation_y) / w.row_step + 1;
}

static inline void pack_panel(local uint *panel, const segment s, const layer a,
    global const float *dy, const ulong dy_ld, const uint inside)
{
    for (uint m = 0; m < s.count; m++)
        for (uint u = s.top; u < s.bottom; u++)
            for (uint v = s.left; v < s.right; v += 2, panel += PANEL) {
                global const float *low = dy + (((s.n + m) * a.height + u) * a.width + v) * dy_ld;
                const uint second = v + 1 < s.right ? inside : 0;
                FOR_VECTORS_OF_ROW(h)
                    *(local uint16 *)(panel + 16 * h) =
                        round_pairs(first16(low + 16 * h, left_of(inside, 16 * h)),
                            first16(low + dy_ld + 16 * h, left_of(second, 16 * h)));
            }
}

/* The pairs of an image row under a tap column, whose first pixel of the segment lies at column x. */
static inline void pack_row(local uint *to, const segment s, const layer a, const window w, const int x,
    global const x_type *row, const ulong x_ld)
{
    for (uint i = 0; i < s.wide; i++, to += w.pitch) {
        const int low = x + (int)(2 * i) * a.stride_x, high = low + a.stride_x;
        const uint first = low >= 0 && low < (int)a.image_width ? w.depth : 0;
        const uint second = s.left + 2 * i + 1 < s.right && high >= 0 && high < (int)a.image_width ? w.depth : 0;
        global const x_type *from = row + (long)low * (long)x_ld;
        for (uint c = 0; c < w.depth; c += 16) {
            /* The last vector ends at the last channel, as a shorter one would go through memory. */
            const uint at = min(c, left_of(w.depth, 16));
            *(local uint16_anywhere *)(to + at) = PAIRS(from + at, left_of(first, at),
                from + (ulong)a.stride_x * x_ld + at, left_of(second, at));
        }
    }
}

static inline void pack_strip(local uint *strip, const segment s, const layer a, const window w,
    global const x_type *x, const ulong x_ld)
{
    const uint rows = strip_rows(s, a, w);
    const int top = (int)s.top * a.stride_y + (int)w.first_row * a.dilation_y - a.padding_y;
    const int left = (int)s.left * a.stride_x + (int)w.first_col * a.dilation_x - a.padding_x;
    for (uint m = 0; m < s.count; m++)
        for (uint r = 0; r < rows; r++) {
            const int y = top + (int)(r * w.row_step);
            if (y < 0 || y >= (int)a.image_height)
                continue; /* no tap reads it */
            for (uint b = 0; b < w.cols; b++)
                pack_row(strip + ((m * rows + r) * w.cols + b) * s.wide * w.pitch, s, a, w,
                    left + (int)b * a.dilation_x,
                    x + ((s.n + m) * a.image_height + (uint)y) * a.image_width * x_ld + w.first_channel, x_ld);
        }
}

/* sum += the result rows `rows`, each times CB channels of its source under tap (p, b) of the window. */
static inline void add_sources(float16 sum[CB][V], local const uint *panel, local const uint *strip,
    const segment s, const layer a, const window w, const uint2 rows, const uint p, const uint b)
{
    const uint all = strip_rows(s, a, w);
    for (uint m = 0; m < s.count; m++)
        for (uint u = rows.x; u < rows.y; u++) {
            const uint r = ((u - s.top) * (uint)a.stride_y + p * (uint)a.dilation_y) / w.row_step;
            local const uint *d = panel + (m * (s.bottom - s.top) + u - s.top) * s.wide * PANEL;
            local const uint *x = strip + ((m * all + r) * w.cols + b) * s.wide * w.pitch;
            for (local const uint *end = d + s.wide * PANEL; d < end; d += PANEL, x += w.pitch) {
                uint16 pairs[V];
                FOR_VECTORS_OF_ROW(h)
                    pairs[h] = *(local const uint16 *)(d + 16 * h);
                FOR_TILE(CB, c, h)
                    sum[c][h] = add_pairs(sum[c][h], (uint16)(x[c]), pairs[h]);
            }
        }
}

/* Adds the products of the panel and the strip to the tiles of the window. */
static inline void multiply_window(local const uint *panel, local const uint *strip, const segment s,
    const layer a, const window w, const uint channels, global float *tiles, const destination to)
{
    for (uint p = 0; p < w.rows; p++) {
        const int shift = (int)(w.first_row + p) * a.dilation_y - a.padding_y;
        const uint2 rows =
            reaching((int)s.top, (int)s.bottom, a.stride_y, shift, 0, (int)a.image_height);
        for (uint b = 0; b < w.cols; b++)
            for (uint c = 0; c < w.depth; c += CB) {
                const uint tap = (w.first_row + p) * a.kernel_width + w.first_col + b;
                const ulong column = (ulong)tap * channels + w.first_channel + c;
                float16 sum[CB][V];
                load_tile(sum, tiles + column * PANEL, s.fresh);
                add_sources(sum, panel, strip + c, s, a, w, rows, p, b);
                put_tile(sum, tiles, column, to);
            }
    }
}

KERNEL_OF(1) CONV_DW_BF16(const ulong batch, const uint channels, const uint outputs,
    LAYER_PARAMETERS, const uint segment_height, const uint segment_width, const ulong images,
    const ulong panels, const ulong panel_run, const uint tap_rows, const uint tap_cols,
    const uint row_step, const uint depth, X_IN, MAT_IN_RESTRICT(dy),
    REGION_OUT(float, partial) DIRECT_ARGUMENTS)
{
    LOCAL_FLOATS(panel_floats, SEG * PANEL);
    LOCAL_FLOATS(strip_floats, STRIP);
    local uint *panel = (local uint *)panel_floats, *strip = (local uint *)strip_floats;
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
                    (right - left + 1) / 2, n == mine.first && top == 0 && left == 0,
                    n + images >= mine.end && bottom == height && right == width};
                for (ulong p = mine.first_panel; p < mine.end_panel; p++) {
                    const uint inside = (uint)min((ulong)PANEL, outputs - p * PANEL);
                    const destination to = DESTINATION(s.last, p, inside);
                    pack_panel(panel, s, a, ROW(dy, 0) + p * PANEL, dy_ld, inside);
                    for (uint i = 0; i < taps / kernel_width; i += tap_rows)
                        for (uint j = 0; j < kernel_width; j += tap_cols)
                            for (uint c = 0; c < channels; c += depth) {
                                const uint deep = min(depth, channels - c);
                                const window w = {i, min(tap_rows, taps / kernel_width - i), j,
                                    min(tap_cols, kernel_width - j), row_step, c, deep,
                                    (deep + 15) / 16 * 16};
                                pack_strip(strip, s, a, w, X_FIRST, X_LD);
                                multiply_window(
                                    panel, strip, s, a, w, channels, partial + p * panel_size, to);
                            }
                }
            }
}
