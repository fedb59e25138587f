/* Max pooling of channels-last images, and its gradient from the positions of the maxima.
 *
 * Pixel (i, j) of image n is row (n * height + i) * width + j. Tap (a, b) of window (i, j) is pixel
 * (i * stride_y + a - pad_y, j * stride_x + b - pad_x). Taps outside of the image do not count; each window
 * has at least one inside.
 *
 *     forward    y[window] = max over its taps in order; a later tap wins only if it is greater or NaN
 *                with KEEP position[window] = a * taps_x + b of the tap that won
 *                with NORM z = gamma inv (x - mean) + beta takes the place of x, and y = max(., 0); where the
 *                maximum of z is <= 0, the position is BLOCKED, which is no tap
 *     backward   dx[pixel] = sum of dy[window] over the windows whose position is the pixel, in the order of
 *                the windows
 *
 * Position c of a row is half a byte, the lower half of byte c / 2 for even c; a row is padded with
 * zeros to multiples of 16 positions:
 *
 *     byte 0: | 1 | 0 |    byte 1: | 3 | 2 |   ...
 *
 * A line is a row of pixels of an image that is written; group g takes the lines [g * group_lines,
 * (g + 1) * group_lines). As with the lanes of rowwise.clh, ROW_LANES work-items share a pixel, and the
 * group's slices take pixels of the line in turn. No local memory. LOCAL: any >= 1; lanes divides it. VW: 4 or 16.
 * KEEP, NORM: 0 or 1. */
#include "prelude/rowwise.clh"
#ifndef KEEP
#define KEEP 0 /* 0: positions is not touched */
#endif
#ifndef NORM
#define NORM 0 /* 0: mean, inv, gamma and beta are not touched */
#endif
#define BLOCKED 15

#if VW != 16 && VW != 4
#error "max_pool.cl needs VW 4 or 16"
#endif

/* Sizes: of images of x and dx, of images of y and dy (out_), and of the window. */
#define WINDOW                                                                                     \
    const ulong lines, const ulong cols, const ulong group_lines, const uint lanes,                \
        const uint height, const uint width, const uint out_height, const uint out_width,          \
        const uint taps_y, const uint taps_x, const uint stride_y, const uint stride_x,            \
        const uint pad_y, const uint pad_x
#define FOR_LINES(line)                                                                            \
    for (ulong line = get_group_id(0) * group_lines,                                               \
               last_line = min(line + group_lines, lines);                                         \
         line < last_line; line++)

#define HALF_SHIFTS (LANES_OF_VEC % 8 * 4) /* of a lane in its word of 8 positions */

/* Writes the positions of the first `left` lanes to columns c ..; after the last vector of the row, pads it
 * with zeros. */
static inline void store_positions(
    const ivec at, global float *row, const ulong c, const ulong left)
{
    const ivec none = 0;
    const ivec there = left < VW && LANES_OF_VEC >= (ivec)((int)left) ? none : at;
    const ivec bits = there << HALF_SHIFTS;
    global uchar *p = (global uchar *)row + c / 2;
#if VW == 16
    ((global uint *)p)[0] = (uint)ANY8(bits.lo);
    ((global uint *)p)[1] = (uint)ANY8(bits.hi);
#else
    *(global ushort *)p = (ushort)ANY4(bits);
#endif
    if (left <= VW) {
        global const uchar *end = (global uchar *)row + (c + left + 15) / 16 * 8;
        for (p += VW / 2; p < end; p++)
            *p = 0;
    }
}

static inline ivec load_positions(global const float *row, const ulong c)
{
    global const uchar *p = (global const uchar *)row + c / 2;
#if VW == 16
    const uint low = ((global const uint *)p)[0], high = ((global const uint *)p)[1];
    const ivec bits = (ivec)((int8)((int)low), (int8)((int)high));
#else
    const ivec bits = *(global const ushort *)p;
#endif
    return bits >> HALF_SHIFTS & 15;
}

/* The value of a tap: x, or with NORM z, by the expression of batch_norm.clh. */
#if NORM
#define CHANNELS(c)                                                                                \
    const vec middle = GET(mean, 0, c), rise = GET(gamma, 0, c) * GET(inv, 0, c),                  \
              shift = GET(beta, 0, c)
#define TAP(p, c) fma(load_part((p) + (c), cols - (c), 0) - middle, rise, shift)
#else
#define CHANNELS(c)
#define TAP(p, c) load_part((p) + (c), cols - (c), 0)
#endif

KERNEL_OF(LOCAL) max_pool_forward(WINDOW, MAT_IN_RESTRICT(x), MAT_IN_RESTRICT(mean),
    MAT_IN_RESTRICT(inv), MAT_IN_RESTRICT(gamma), MAT_IN_RESTRICT(beta), MAT_OUT_RESTRICT(y),
    MAT_OUT_RESTRICT(positions))
{
    const vec zero = 0;
    FOR_LINES(line) {
        const uint i = line % out_height * stride_y; /* of the window, padding counted */
        const uint top = i < pad_y ? pad_y - i : 0;  /* first tap inside */
        const uint bottom = min(taps_y, height + pad_y - i);
        const ulong first = line / out_height * height + (i + top - pad_y);
        for (uint window = SLICE; window < out_width; window += ROW_SLICES) {
            const uint j = window * stride_x;
            const uint left = j < pad_x ? pad_x - j : 0, right = min(taps_x, width + pad_x - j);
            const ulong row = line * out_width + window;
            global const float *corner = ROW(x, first * width + (j + left - pad_x));
            FOR_LANE_VECTORS(c) {
                CHANNELS(c);
                vec best = TAP(corner, c);
                ivec at = top * taps_x + left;
                for (uint a = top; a < bottom; a++)
                    for (uint b = left; b < right; b++) {
                        const ulong tap = (ulong)(a - top) * width + (b - left);
                        const vec v = TAP(corner + tap * x_ld, c);
                        const ivec wins = v > best | v != v;
                        best = wins ? v : best;
                        at = wins ? (ivec)(a * taps_x + b) : at;
                    }
                if (NORM) {
                    at = best <= zero ? (ivec)(BLOCKED) : at;
                    best = best <= zero ? zero : best;
                }
                PUT(best, y, row, c);
                if (KEEP)
                    store_positions(at, ROW(positions, row), c, cols - c);
            }
        }
    }
}

/* Forward: y[window] = x[pixel under the window's position]. */
KERNEL_OF(LOCAL) max_pool_backward(WINDOW, MAT_IN_RESTRICT(dy), MAT_IN_RESTRICT(positions),
    MAT_OUT_RESTRICT(dx))
{
    const vec zero = 0;
    FOR_LINES(line) {
        /* Windows [top, bottom) x [left, right) contain the pixel: tap (tap_y, tap_x) of window (0, 0). */
        const uint tap_y = line % height + pad_y;
        const uint top = tap_y < taps_y ? 0 : (tap_y - taps_y) / stride_y + 1;
        const uint bottom = min(tap_y / stride_y + 1, out_height);
        const ulong image = line / height * out_height;
        for (uint j = SLICE; j < width; j += ROW_SLICES) {
            const uint tap_x = j + pad_x;
            const uint left = tap_x < taps_x ? 0 : (tap_x - taps_x) / stride_x + 1;
            const uint right = min(tap_x / stride_x + 1, out_width);
            FOR_LANE_VECTORS(c) {
                vec sum = 0;
                for (uint a = top; a < bottom; a++) {
                    const ulong row = (image + a) * out_width + left;
                    global const float *at = ROW(positions, row), *slope = ROW(dy, row) + c;
                    int tap = (tap_y - a * stride_y) * taps_x + tap_x - left * stride_x;
                    for (uint b = left; b < right; b++) {
                        sum += load_positions(at, c) == (ivec)(tap) ? load_part(slope, cols - c, 0) : zero;
                        at += positions_ld, slope += dy_ld, tap -= stride_x;
                    }
                }
                PUT(sum, dx, line * width + j, c);
            }
        }
    }
}
