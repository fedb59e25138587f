/* Sums of an image's dy over the results that each tap of a convolution serves.
 *
 *     sums[t * batch + n][o] = sum over the result pixels (i, j) of image n whose tap t = a * KW + b lies in
 *                              the image of dy[n][i][j][o]:
 *                              0 <= i * stride_y + a * dilation_y - padding_y < height, and likewise j
 *
 * dy: (batch * rows * cols) x channels. Group (g, n) takes image n and the channels from g * LOCAL * VW on, a vector
 * of VW for each of its LOCAL work-items, the last one padded. Taps are added up in the order of the pixels: the
 * columns of a row, then the rows. No local memory. KH, KW: taps per side, any >= 1. */
#if !defined(KH) || !defined(KW)
#error "conv_tap_sums.cl needs KH and KW"
#endif

/* Coordinates outside of the image, also those below 0, are not below its size. */
ROWWISE_KERNEL conv_tap_sums(const ulong height, const ulong width, const ulong rows, const ulong cols,
    const ulong stride_y, const ulong stride_x, const ulong padding_y, const ulong padding_x,
    const ulong dilation_y, const ulong dilation_x, const ulong channels,
    MAT_IN_RESTRICT(dy), MAT_OUT_RESTRICT(sums))
{
    const ulong c = get_global_id(0) * VW, n = get_group_id(1), batch = get_num_groups(1);
    if (c >= channels)
        return;
    vec sum[KH * KW];
    for (uint t = 0; t < KH * KW; t++)
        sum[t] = 0;
    for (ulong i = 0; i < rows; i++) {
        vec line[KW];
        for (uint b = 0; b < KW; b++)
            line[b] = 0;
        for (ulong j = 0; j < cols; j++) {
            const vec v = load_part(ROW(dy, (n * rows + i) * cols + j) + c, channels - c, 0);
            for (uint b = 0; b < KW; b++)
                if (j * stride_x + b * dilation_x - padding_x < width)
                    line[b] += v;
        }
        for (uint a = 0; a < KH; a++)
            if (i * stride_y + a * dilation_y - padding_y < height)
                for (uint b = 0; b < KW; b++)
                    sum[a * KW + b] += line[b];
    }
    for (uint t = 0; t < KH * KW; t++)
        store_part(sum[t], ROW(sums, t * batch + n) + c, channels - c);
}
