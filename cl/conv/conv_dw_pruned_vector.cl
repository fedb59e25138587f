/* Weight gradient of a convolution for CPUs from kept 1 x BC blocks: partial sums of dy^T * xs.
 *
 *     partial[split][P][(t * block_cols * BC) + c][i] = sum over the images n of `split` and the kept
 *         blocks of pixels q that hold column c of  dy[n, result(q, t)][P * PANEL + i] * xs[n, q][c]
 *
 * result(q, t) is the result pixel whose tap t = (a, b) lies on pixel q = (y, x): ((y + padding_y -
 * a * dilation_y) / stride_y, likewise x). Pixels where the quotients are not whole have no term; outside of
 * the results dy counts as 0. P counts panels of PANEL = 16 * V outputs.
 *
 *       dy with a margin of zeros         lists of conv_lists.cl           partial
 *     +--------------------------+       +-----+----+-----+          +------------------+
 *     |  +------------------+    |       |     |kept|     |          | CB x PANEL tile  |  in registers
 *     |  | panel (local)    |    |   q ->|     |kept|     |          +------------------+
 *     +--------------------------+       +-----+----+-----+
 *
 * CENTRED: the kept blocks are of x - means[n], the mean of each image; the part of the mean is added:
 *
 *     means[n][c] * (the sum of dy[n, result(q, t)][P * PANEL + i] over all pixels q that tap t meets)
 *
 * One work-item a group; group (g, split) takes the panels [g * panel_run, (g + 1) * panel_run). It goes
 * through all of them segment by segment: a segment is `segment` rows of pixels / stride_y of `images` images
 * (more than one only if the segment is whole images). Its panel is (rows of the segment + margin_y) x pitch
 * pixels of dy for each image, from result pixel (segment's first + low_y, low_x) on. In the panel, the
 * results of a tap are the positions of the list, shifted by a constant: one list serves all taps of a class.
 *
 * DIRECT: there is one split, which writes its last sums to dw: dw[o][t * C + c], C = block_cols * BC a
 * multiple of 16.
 *
 * With AMX, 1 or 2, and BF16 lists are multiplied by tiles (list_amx.clh): CB is 16.
 *
 * With BF16 dy is rounded to bf16, and `entries` and `values` are the rows and words of pairs (bspmm_pairs.cl),
 * `slots` for each image; a pair's missing second row is SEG. V is even. Local memory then is half as much, and
 * a row of zeros.
 *
 * `entries` has AHEAD elements behind the last entry. Local memory: SEG * PANEL * 4 bytes, with DIRECT
 * plus direct.clh's. CB divides BC, CB * V accumulators. IMAGES: the most `images`. */
#include "conv/direct.clh"
#include "conv/layer.clh"
#include "prelude/pair_rows.clh"
#ifndef AMX
#define AMX 0
#endif
#if AMX
#include "amx/list_amx.clh"
#endif
#if !defined(BC) || !defined(SEG) || !defined(IMAGES) || !defined(AHEAD)
#error "conv_dw_pruned_vector.cl needs BC, SEG, IMAGES and AHEAD"
#endif

#ifndef CENTRED
#define CENTRED 0
#endif

#if BF16
typedef uint panel_word;
#define IF_BF16(text)                text
#define PANEL_ROWS                   (SEG + 1)
#define COPY_ROW(to, from, width)    pack_row(to, from, width)
static inline void add_row_to(float16 total[V], local const uint *row)
{
    UNROLLED(h, V / 2) {
        uint16 x, y; /* a bf16 in the upper half is a float */
        pair_rows((uint16)(0), *(local const uint16 *)(row + 16 * h), &x, &y);
        total[2 * h] += as_float16(x);
        total[2 * h + 1] += as_float16(y);
    }
}
#else
typedef float panel_word;
#define IF_BF16(text)
#define PANEL_ROWS                   SEG
#define ROW_WORDS                    PANEL
#define COPY_ROW(to, from, width)    copy_outputs(to, from, width)
static inline void add_row_to(float16 total[V], local const float *row)
{
    FOR_VECTORS_OF_ROW(h)
        total[h] += vload16(h, row);
}
#endif

/* The rows of pixels / stride_y from `first` on, of the `count` images from n on. The panel has high x pitch
 * pixels of each image, from result pixel (top, left) on. fresh: the first segment of a split, last: the last
 * one. */
typedef struct segment {
    ulong n, number; /* of the image's segments */
    uint count, first, high, pitch;
    int top, left;
    bool fresh, last;
} segment;

/* The kept blocks of all images, their lists by segment and class (conv_lists.cl), and with CENTRED the means
 * that were subtracted. */
typedef struct kept_blocks {
    ulong cols, keep, segments, classes;
#if BF16
    ulong slots;
    global const uint *words;
#else
    global const float *values;
#endif
    global const uint *starts;
    global const uint2 *entries;
    global const float *means;
    ulong means_ld;
    uint channels;
} kept_blocks;

/* (class, shift) of tap `tap` of an axis: it meets the pixels i with i % stride = class, and the result for
 * pixel i is i / stride + shift. */
static inline int2 tap_shift(const int tap, const int stride, const int padding, const int dilation)
{
    const int reach = tap * dilation - padding;
    const int of = ((reach % stride) + stride) % stride;
    return (int2)(of, (of - reach) / stride);
}

/* The number of pixels first, first + stride, ... of an axis that are below size, at most `most`. */
static inline uint pixels_from(const uint first, const uint stride, const uint size, const uint most)
{
    return first < size ? min((size - 1 - first) / stride + 1, most) : 0;
}

/* panel[..] = the segment's pixels of dy, image by image, row by row; zeros outside of the results. */
static inline void copy_pixels(local panel_word *panel, const segment s, const layer a,
    global const float *dy, const ulong dy_ld, const uint inside)
{
    for (uint m = 0; m < s.count; m++)
        for (uint u = 0; u < s.high; u++)
            for (uint v = 0; v < s.pitch; v++, panel += ROW_WORDS) {
                const uint i = (uint)(s.top + (int)u), j = (uint)(s.left + (int)v);
                const bool there = i < a.height && j < a.width;
                const ulong pixel = there ? ((s.n + m) * a.height + i) * a.width + j : 0;
                COPY_ROW(panel, dy + pixel * dy_ld, there ? inside : 0);
            }
}

/* served[m] = for each image the sum over down x across pixels of the shifted panel. */
static inline void sum_served(float16 served[][V], local const panel_word *shifted, const segment s,
    const uint down, const uint across)
{
    for (uint m = 0; m < s.count; m++, shifted += s.high * s.pitch * ROW_WORDS) {
        float16 total[V];
        FOR_VECTORS_OF_ROW(h)
            total[h] = (float16)(0.0f);
        for (uint u = 0; u < down; u++)
            for (uint v = 0; v < across; v++)
                add_row_to(total, shifted + ((ulong)u * s.pitch + v) * ROW_WORDS);
        FOR_VECTORS_OF_ROW(h)
            served[m][h] = total[h];
    }
}

/* sum += the means of CB channels, each times the sum of the results that the tap serves. */
static inline void add_means(float16 sum[CB][V], const float16 *served, global const float *mean,
    const uint channel, const uint channels)
{
    FOR_TILE(CB, b, h)
        sum[b][h] = fma((float16)(mean[min(channel + b, channels - 1)]), served[h], sum[b][h]);
}

/* tiles[first_column + ..] += the shifted panel times the kept blocks of a class, for the columns of a tap. */
static inline void multiply_blocks(local const panel_word *panel, const ulong shift, float16 served[][V], const segment s,
    const kept_blocks x, const uint class, const bool fetch, const ulong first_column,
    global float *tiles, const destination to IF(AMX)(COMMA local uint *of_list))
{
    for (ulong j = 0; j < x.cols; j++)
        for (uint c = 0; c < BC; c += CB) {
            const ulong column = first_column + j * BC + c;
            float16 sum[CB][V];
#if !AMX
            load_tile(sum, tiles + column * PANEL, s.fresh);
#endif
            for (uint m = 0; m < s.count; m++) {
                const ulong n = s.n + m;
                global const uint *start =
                    x.starts + ((n * x.segments + s.number) * x.classes + class) * (x.cols + 1) + j;
                const ulong first = shift + (ulong)m * s.high * s.pitch;
#if BF16
                const ulong slot =
                    n * x.slots + (start[0] + (s.number * x.classes + class) * x.cols + j) / 2;
                const uint pairs = (start[1] - start[0] + 1) / 2;
#if AMX
                multiply_list(tiles + column * PANEL, s.fresh && m == 0, x.entries + slot, x.words + slot * BC + c,
                    pairs, panel, first, of_list);
                continue;
#else
                add_row_pairs(sum, x.entries + slot, x.words + slot * BC + c, pairs, panel, first);
#endif
#else
                add_entries(sum, x.entries + n * x.keep + start[0], start[1] - start[0], fetch,
                    panel + first * PANEL, x.values + n * x.keep * BC + c);
#endif
                if (CENTRED)
                    add_means(sum, served[m], x.means + n * x.means_ld, (uint)(j * BC) + c,
                        x.channels);
            }
#if AMX /* the tile has the sums, and is whole but for means and DIRECT */
            if (!CENTRED && !(DIRECT && s.last))
                continue;
            load_tile(sum, tiles + column * PANEL, false);
            for (uint m = 0; CENTRED && m < s.count; m++)
                add_means(sum, served[m], x.means + (s.n + m) * x.means_ld, (uint)(j * BC) + c, x.channels);
#endif
            put_tile(sum, tiles, column, to);
        }
}

KERNEL_OF(1) conv_dw_pruned_vector(const ulong batch, const uint outputs, LAYER_PARAMETERS,
    const ulong block_cols, const uint segment_rows, const ulong segments, const ulong images,
    const int low_y, const int low_x, const uint margin_y, const uint pitch, const ulong keep,
    IF_BF16(const ulong slots COMMA)
    const ulong panels, const ulong panel_run, MAT_IN_RESTRICT(dy), REGION_IN(panel_word, values),
    REGION_IN(uint, starts), REGION_IN(uint2, entries),
    REGION_OUT(float, partial) IF(CENTRED)(COMMA const uint channels COMMA MAT_IN_RESTRICT(means))
        DIRECT_ARGUMENTS)
{
    LOCAL_FLOATS(panel_floats, PANEL_ROWS * ROW_WORDS);
    local panel_word *panel = (local panel_word *)panel_floats;
    DIRECT_LOCAL
    const layer a = LAYER;
    const share mine = share_of_group(batch, panels, panel_run);
    const ulong panel_size = taps * block_cols * BC * PANEL;
    const uint steps = (image_height + (uint)stride_y - 1) / (uint)stride_y;
    const kept_blocks blocks = {block_cols, keep, segments, (ulong)(stride_y * stride_x),
        IF_BF16(slots COMMA) values + values_offset, starts + starts_offset, entries + entries_offset,
        IF(CENTRED)(ROW(means, 0) COMMA means_ld COMMA channels)};
    partial += partial_offset + get_group_id(1) * panels * panel_size;
    IF_BF16(clear_last_row(panel);)
    IF(AMX)(LOCAL_FLOATS(of_list, LIST_FLOATS); amx_begin();)

    for (ulong n = mine.first; n < mine.end; n += images)
        for (ulong number = 0; number < segments; number++) {
            const uint first = (uint)number * segment_rows;
            const uint high = min(segment_rows, steps - first) + margin_y;
            const segment s = {n, number, (uint)min(images, mine.end - n), first, high, pitch,
                (int)first + low_y, low_x, n == mine.first && number == 0,
                n + images >= mine.end && number + 1 == segments};
            for (ulong p = mine.first_panel; p < mine.end_panel; p++) {
                const uint inside = (uint)min((ulong)PANEL, outputs - p * PANEL);
                const destination to = DESTINATION(s.last, p, inside);
                copy_pixels(panel, s, a, ROW(dy, 0) + p * PANEL, dy_ld, inside);
                for (uint t = 0; t < taps; t++) {
                    const int2 y = tap_shift((int)(t / kernel_width), stride_y, padding_y, dilation_y);
                    const int2 x = tap_shift((int)(t % kernel_width), stride_x, padding_x, dilation_x);
                    const ulong shift = (ulong)(y.y - low_y) * pitch + (ulong)(x.y - low_x);
                    float16 served[CENTRED ? IMAGES : 1][V];
                    if (CENTRED)
                        sum_served(served, panel + shift * ROW_WORDS, s,
                            pixels_from(first * (uint)stride_y + (uint)y.x, (uint)stride_y,
                                image_height, high - margin_y),
                            pixels_from((uint)x.x, (uint)stride_x, image_width, image_width));
                    multiply_blocks(panel, shift, served, s, blocks, (uint)(y.x * stride_x + x.x), t == 0,
                        (ulong)t * block_cols * BC, partial + p * panel_size, to IF(AMX)(COMMA (local uint *)of_list));
                }
            }
        }
    IF(AMX)(amx_end();)
}
