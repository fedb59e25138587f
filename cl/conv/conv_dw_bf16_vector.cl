/* Weight gradient of a convolution for CPUs, with x and dy rounded to bf16: partial sums as in conv_dw_vector.cl,
 * whose sizes, groups, segments and DIRECT it has.
 *
 * The sum runs over pairs of result pixels: the same pixel (u, v) of two neighbouring images or, unless `paired` and
 * of a last one without a neighbour, those of an image's upper and lower half. So no pixel of an odd row is left
 * alone, and all taps of a row share the pairs of x. A group packs, for the rows and pixels of the pairs m,
 *
 *     panel[m][u][v][o]    = the pair of dy[.., o]
 *     strip[m][r][q][c]    = the pair of x[source row r, source column q][c], zero where only one is in its image
 *
 *       panel                         strip                         partial
 *     +--------------+            +--------------+              +------------------+
 *     | pair: PANEL  |    v ->    | pair: depth  |              | CB x PANEL tile  |  in registers
 *     +--------------+            +--------------+              +------------------+
 *
 * The strip serves a window of tap_rows x tap_cols taps and `depth` channels, a multiple of CB, at a time. Its rows
 * are those of the image from the first tap's on or, if tap_rows is 1, each stride_y-th of them; columns likewise.
 * `images` counts pairs if `paired`. With DIRECT 16 divides depth. With BITS 16 x is quantised (quantise.clh).
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
    if (count == 0)
        return (uint16)(0u);
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

/* Result rows [top, bottom) and columns [left, right) of `count` pairs of images from image n on; with apart > 0 of
 * `count` images, whose rows `apart` further down are the others of the pairs. fresh: the first segment of a split, last:
 * the last one. */
typedef struct segment {
    ulong n;
    uint count, apart, top, bottom, left, right;
    bool fresh, last;
} segment;

/* The taps and channels of a strip. Its rows and columns are `each` pixels apart, and sources of neighbouring results
 * `next` of them: .x is along a row. pitch: words of a pair, at least depth. */
typedef struct window {
    uint first_row, rows, first_col, cols;
    uint2 each, next;
    uint first_channel, depth, pitch;
} window;

/* Rows and columns of the strip for a pair of images, and the image's row and column of the first. */
static inline uint2 strip_size(const segment s, const layer a, const window w)
{
    return (uint2)(s.right - 1 - s.left, s.bottom - 1 - s.top) * w.next +
           (uint2)((w.cols - 1) * (uint)a.dilation_x, (w.rows - 1) * (uint)a.dilation_y) + 1;
}

static inline int2 strip_first(const segment s, const layer a, const window w)
{
    return (int2)((int)s.left * a.stride_x + (int)w.first_col * a.dilation_x - a.padding_x,
        (int)s.top * a.stride_y + (int)w.first_row * a.dilation_y - a.padding_y);
}

/* The images of the two pixels of pair m. */
static inline ulong2 images_of(const segment s, const uint m)
{
    return s.apart > 0 ? (ulong2)(s.n + m) : (ulong2)(s.n + 2 * m, s.n + 2 * m + 1);
}

static inline void pack_panel(local uint *panel, const segment s, const layer a,
    global const float *dy, const ulong dy_ld, const uint inside)
{
    for (uint m = 0; m < s.count; m++)
        for (uint u = s.top; u < s.bottom; u++) {
            const ulong2 image = images_of(s, m);
            const uint second = u + s.apart < a.height ? inside : 0;
            global const float *low = dy + ((image.x * a.height + u) * a.width + s.left) * dy_ld;
            global const float *high = dy + ((image.y * a.height + u + s.apart) * a.width + s.left) * dy_ld;
            for (uint v = s.left; v < s.right; v++, panel += PANEL, low += dy_ld, high += dy_ld)
                FOR_VECTORS_OF_ROW(h)
                    *(local uint16 *)(panel + 16 * h) = round_pairs(first16(low + 16 * h, left_of(inside, 16 * h)),
                        first16(high + 16 * h, left_of(second, 16 * h)));
        }
}

/* Which rows of a pair are in their images, of strip row r: a bit each. */
static inline uint rows_inside(const segment s, const layer a, const int first, const uint r, const uint each)
{
    const int low = first + (int)(r * each), high = low + (int)s.apart * a.stride_y;
    return (low >= 0 && low < (int)a.image_height ? 1u : 0u) |
           (high >= 0 && high < (int)a.image_height ? 2u : 0u);
}

static inline void pack_strip(local uint *strip, const segment s, const layer a, const window w,
    global const x_type *x, const ulong x_ld)
{
    const uint2 size = strip_size(s, a, w);
    const int2 first = strip_first(s, a, w);
    for (uint m = 0; m < s.count; m++)
        for (uint r = 0; r < size.y; r++) {
            const uint inside = rows_inside(s, a, first.y, r, w.each.y);
            const uint low = inside & 1u ? w.depth : 0, high = inside & 2u ? w.depth : 0;
            if (inside == 0)
                continue; /* no tap reads it */
            const ulong2 image = images_of(s, m);
            const long row = first.y + (long)(r * w.each.y);
            global const x_type *of_low = x + ((long)(image.x * a.image_height) + row) * (long)(a.image_width * x_ld);
            global const x_type *of_high =
                x + ((long)(image.y * a.image_height) + row + (long)s.apart * a.stride_y) * (long)(a.image_width * x_ld);
            local uint *to = strip + (m * size.y + r) * size.x * w.pitch;
            for (uint q = 0; q < size.x; q++, to += w.pitch) {
                const int col = first.x + (int)(q * w.each.x);
                if (col < 0 || col >= (int)a.image_width)
                    continue;
                const ulong at_col = (ulong)col * x_ld + w.first_channel;
                for (uint c = 0; c < w.depth; c += 16) {
                    /* The last vector ends at the last channel, as a shorter one would go through memory. */
                    const uint at = min(c, left_of(w.depth, 16));
                    *(local uint16_anywhere *)(to + at) =
                        PAIRS(of_low + at_col + at, left_of(low, at), of_high + at_col + at, left_of(high, at));
                }
            }
        }
}

/* sum += the results in columns `cols`, each times CB channels of its source under tap (p, b) of the window. */
static inline void add_sources(float16 sum[CB][V], local const uint *panel, local const uint *strip,
    const segment s, const layer a, const window w, const uint2 cols, const uint p, const uint b)
{
    const uint2 size = strip_size(s, a, w);
    const int first = strip_first(s, a, w).y;
    const uint across = s.right - s.left, count = cols.y - cols.x;
    const uint q = (cols.x - s.left) * w.next.x + b * (uint)a.dilation_x, step = w.next.x * w.pitch;
    for (uint m = 0; m < s.count; m++)
        for (uint u = 0; u < s.bottom - s.top; u++) {
            const uint r = u * w.next.y + p * (uint)a.dilation_y;
            if (rows_inside(s, a, first, r, w.each.y) == 0)
                continue;
            local const uint *d = panel + ((m * (s.bottom - s.top) + u) * across + cols.x - s.left) * PANEL;
            local const uint *x = strip + ((m * size.y + r) * size.x + q) * w.pitch;
            for (local const uint *end = d + count * PANEL; d < end; d += PANEL, x += step) {
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
    for (uint p = 0; p < w.rows; p++)
        for (uint b = 0; b < w.cols; b++) {
            const uint tap = (w.first_row + p) * a.kernel_width + w.first_col + b;
            const uint2 cols = reaching(
                (int)s.left, (int)s.right, a.stride_x, shift_of(a, tap).x, 0, (int)a.image_width);
            for (uint c = 0; c < w.depth; c += CB) {
                const ulong column = (ulong)tap * channels + w.first_channel + c;
                float16 sum[CB][V];
                load_tile(sum, tiles + column * PANEL, s.fresh);
                if (cols.x < cols.y)
                    add_sources(sum, panel, strip + c, s, a, w, cols, p, b);
                put_tile(sum, tiles, column, to);
            }
        }
}

KERNEL_OF(1) CONV_DW_BF16(const ulong batch, const uint channels, const uint outputs,
    LAYER_PARAMETERS, const uint segment_height, const uint segment_width, const ulong images,
    const ulong panels, const ulong panel_run, const uint paired, const uint tap_rows, const uint tap_cols, const uint depth,
    X_IN, MAT_IN_RESTRICT(dy), REGION_OUT(float, partial) DIRECT_ARGUMENTS)
{
    LOCAL_FLOATS(panel_floats, SEG * PANEL);
    LOCAL_FLOATS(strip_floats, STRIP);
    local uint *panel = (local uint *)panel_floats, *strip = (local uint *)strip_floats;
    DIRECT_LOCAL
    const layer a = LAYER;
    const share mine = share_of_group(paired ? (batch + 1) / 2 : batch, panels, panel_run);
    const ulong panel_size = (ulong)taps * channels * PANEL;
    const uint2 stride = (uint2)(stride_x, stride_y), one = 1, many = (uint2)(tap_cols > 1, tap_rows > 1);
    const uint2 each = many > 0u ? one : stride, next = many > 0u ? stride : one;
    ulong count;
    partial += partial_offset + get_group_id(1) * panels * panel_size;

    for (ulong n = mine.first; n < mine.end; n += count) {
        const bool alone = !paired || 2 * n + 1 == batch;
        const uint apart = alone ? (height + 1) / 2 : 0, rows = alone ? apart : height;
        count = min(images, (alone ? mine.end : min(mine.end, batch / 2)) - n);
        for (uint top = 0; top < rows; top += segment_height)
            for (uint left = 0; left < width; left += segment_width) {
                const uint bottom = min(top + segment_height, rows);
                const uint right = min(left + segment_width, width);
                const segment s = {paired ? 2 * n : n, (uint)count, apart, top, bottom, left, right,
                    n == mine.first && top == 0 && left == 0,
                    n + count >= mine.end && bottom == rows && right == width};
                for (ulong p = mine.first_panel; p < mine.end_panel; p++) {
                    const uint inside = (uint)min((ulong)PANEL, outputs - p * PANEL);
                    const destination to = DESTINATION(s.last, p, inside);
                    pack_panel(panel, s, a, ROW(dy, 0) + p * PANEL, dy_ld, inside);
                    for (uint i = 0; i < taps / kernel_width; i += tap_rows)
                        for (uint j = 0; j < kernel_width; j += tap_cols)
                            for (uint c = 0; c < channels; c += depth) {
                                const uint deep = min(depth, channels - c);
                                const window w = {i, tap_rows, j, tap_cols, each, next, c, deep,
                                    (deep + 15) / 16 * 16};
                                pack_strip(strip, s, a, w, X_FIRST, X_LD);
                                multiply_window(
                                    panel, strip, s, a, w, channels, partial + p * panel_size, to);
                            }
                }
            }
    }
}
