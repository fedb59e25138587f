/* The gradient of a depthwise convolution's weights; images, lines and groups: conv_depthwise.clh.
 *
 *     weights    partial[s * TAPS + a * TAPS_X + b][c] = sum of dy(n, i, j) * x(under the tap) over the lines of split s
 *     finish     dw[c][t] = sum over s of partial[s * TAPS + t][c]   (+ beta * dw unless beta is 0)
 *
 * Weights need one slice. */
#include "conv/conv_depthwise.clh"

/* Forward: y(j) = sum over b of w[b] * x(j * STRIDE + b * REACH - PAD). */
KERNEL_OF(LOCAL) conv_depthwise_weights(DEPTHWISE_SIZES, MAT_IN_RESTRICT(x), MAT_IN_RESTRICT(dy),
    MAT_OUT_RESTRICT(partial))
{
    const ulong first = FIRST_CHANNEL, channels = CHANNELS;
    vec sums[CHUNK / VW / LANES][TAPS];
    for (uint i = 0; i < CHUNK / VW / LANES; i++)
        for (uint t = 0; t < TAPS; t++)
            sums[i][t] = 0;
    FOR_GROUP_LINES(line) {
        const int top = (int)(line % out_height) * stride_y - pad_y;
        const ulong image = line / out_height * height;
        FOR_CHANNELS(k, c) {
            const ulong there = channels - c;
            global const float *slope = ROW(dy, line * out_width) + first + c;
            /* the next vector of the same pixels, behind the last one the first of the next line */
            const bool more = k + VW < channels;
            const long ahead_x = more ? VW : stride_y * width * (long)x_ld - (long)c;
            const long ahead_dy = more ? VW : out_width * (long)dy_ld - (long)c;
            for (int a = 0; a < TAPS_Y; a++) {
                const int row = top + a * reach_y;
                if (row < 0 || row >= height)
                    continue;
                global const float *from = ROW(x, (image + row) * width) + first + c;
                vec sum[TAPS_X];
                UNROLLED(b, TAPS_X)
                    sum[b] = sums[k / VW / LANES][a * TAPS_X + b];
                for (int j = 0; j < out_width; j += PIXELS) {
                    const int left = j * STRIDE - PAD;
                    if (LOCAL == 1 && a == 0)
                        UNROLLED(i, PIXELS)
                            PREFETCH_FAR(slope + (j + (int)i) * (long)dy_ld + ahead_dy);
                    if (LOCAL == 1 && a >= TAPS_Y - stride_y)
                        UNROLLED(q, PIXELS * STRIDE)
                            PREFETCH_FAR(from + (left + (int)q) * (long)x_ld + ahead_x);
                    vec d[PIXELS];
                    UNROLLED(i, PIXELS)
                        d[i] = j + (int)i < out_width ? load_part(slope + (j + i) * dy_ld, there, 0)
                                                      : (vec)(0.0f);
                    UNROLLED(q, SOURCE_PIXELS)
                        if (left + (int)q >= 0 && left + (int)q < width) {
                            const vec v = load_part(from + (left + (int)q) * (long)x_ld, there, 0);
                            UNROLLED(b, TAPS_X)
                                if (SERVES(q, b))
                                    sum[b] = fma(v, d[SERVED(q, b)], sum[b]);
                        }
                }
                UNROLLED(b, TAPS_X)
                    sums[k / VW / LANES][a * TAPS_X + b] = sum[b];
            }
        }
    }
    FOR_CHANNELS(k, c)
        for (uint t = 0; t < TAPS; t++)
            store_part(sums[k / VW / LANES][t], ROW(partial, SPLIT * TAPS + t) + first + c,
                channels - c);
}

/* Group k takes the channels [k * LOCAL * VW, (k + 1) * LOCAL * VW). */
KERNEL_OF(LOCAL) conv_depthwise_finish(const ulong cols, const ulong splits, const float beta,
    MAT_IN_RESTRICT(partial), MAT_OUT_RESTRICT(dw))
{
    const ulong c = (get_group_id(0) * LOCAL + get_local_id(0)) * VW;
    for (uint t = 0; c < cols && t < TAPS; t++) {
        vec sum = 0;
        for (ulong s = 0; s < splits; s++)
            sum += GET(partial, s * TAPS + t, c);
        float part[VW];
        TO_ARRAY(sum, part);
        for (uint i = 0; i < VW; i++)
            if (c + i < cols) {
                global float *to = ROW(dw, c + i) + t;
                *to = beta != 0 ? fma(beta, *to, part[i]) : part[i];
            }
    }
}
