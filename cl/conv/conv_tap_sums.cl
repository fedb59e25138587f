/* For each tap of a convolution, the sum of an image's dy over the results whose tap lies in the image.
 *
 *     sums[n][o * taps + t] = sum over the result pixels (i, j) of image n whose tap t = a * KW + b lies in
 *                             the image of dy[n][i][j][o]:
 *                             0 <= i * stride_y + a * dilation_y - padding_y < height, and likewise j
 *
 * dy: (batch * rows * cols) x channels. A group takes an image and LOCAL vectors of channels (PART_ROW
 * in rowwise.clh), the last one padded. Pixels of a row that count for all taps are added up once. No local
 * memory. KH, KW: taps per side, any >= 1. */
#include "prelude/rowwise.clh"
#if !defined(KH) || !defined(KW)
#error "conv_tap_sums.cl needs KH and KW"
#endif

/* Coordinates are unsigned: those below 0 wrap, and so are not below the size either. */
#define COLUMN_SERVES(j, b) ((j) * stride_x + (b) * dilation_x - padding_x < width)
#define PIXEL(j) load_part(row + (j) * dy_ld, channels - c, 0)

KERNEL_OF(LOCAL) conv_tap_sums(const ulong height, const ulong width, const ulong rows,
    const ulong cols, const ulong stride_y, const ulong stride_x, const ulong padding_y,
    const ulong padding_x, const ulong dilation_y, const ulong dilation_x, const ulong channels,
    MAT_IN_RESTRICT(dy), MAT_OUT_RESTRICT(sums))
{
    const ulong n = PART_ROW(channels), c = PART_COLUMN(channels);
    if (c >= channels)
        return;
    ulong all = cols, end = 0; /* columns [all, end) count for all taps */
    for (ulong j = 0; j < cols; j++) {
        uint serves = 0;
        for (uint b = 0; b < KW; b++)
            serves += COLUMN_SERVES(j, b);
        if (serves == KW) {
            all = min(all, j);
            end = j + 1;
        }
    }
    end = max(all, end);
    vec sum[KH * KW];
    for (uint t = 0; t < KH * KW; t++)
        sum[t] = 0;
    for (ulong i = 0; i < rows; i++) {
        global const float *row = ROW(dy, (n * rows + i) * cols) + c;
        vec line[KW], middle = 0;
        for (ulong j = all; j < end; j++)
            middle += PIXEL(j);
        for (uint b = 0; b < KW; b++)
            line[b] = middle;
        for (ulong j = all == 0 ? end : 0; j < cols; j = j + 1 == all ? end : j + 1) {
            const vec v = PIXEL(j);
            for (uint b = 0; b < KW; b++)
                if (COLUMN_SERVES(j, b))
                    line[b] += v;
        }
        for (uint a = 0; a < KH; a++)
            if (i * stride_y + a * dilation_y - padding_y < height)
                for (uint b = 0; b < KW; b++)
                    sum[a * KW + b] += line[b];
    }
    global float *to = ROW(sums, n) + c * KH * KW;
    UNROLLED(t, KH * KW)
        UNROLLED(k, VW) /* known indices, which keep the sums in registers */
            if (c + k < channels)
                to[k * KH * KW + t] = ((const float *)&sum[t])[k];
}
