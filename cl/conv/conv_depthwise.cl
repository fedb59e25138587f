/* Depthwise convolutions of channels-last images: result channel c has the taps of source channel c alone.
 *
 * Pixel (i, j) of image n is row (n * height + i) * width + j; x has height x width pixels, y out_height x
 * out_width. w[c][a * TAPS_X + b], x(n, p, q) outside of the image counts as nothing:
 *
 *     forward    y(n, i, j) = b + sum over a, b of w[a, b] * x(n, i * stride_y + a * reach_y - pad_y, j * STRIDE
 *                + b * REACH - PAD)
 *     input      dx(n, p, q) = sum of w[a, b] * dy(n, i, j) over the taps that reach (p, q), + beta * dx with READ_DX
 *     weights    partial[s * TAPS + a * TAPS_X + b][c] = sum of dy(n, i, j) * x(under the tap) over the lines of split s
 *     finish     dw[c][t] = sum over s of partial[s * TAPS + t][c] + beta * dw
 *
 * A line is a row of pixels of the image that is written, in weights of y. Group s * chunks + k takes the channels
 * [k * chunk, (k + 1) * chunk) of the lines [s * group_lines, (s + 1) * group_lines). Its LANES work-items that share a pixel have
 * a vector of VW channels each, in turn; the SLICES take blocks of PIXELS neighbouring pixels of a line in turn. Of a
 * line of the source, each pixel is loaded once for a block. Local memory: the weights of the chunk, tap by tap.
 *
 * LOCAL: LANES * SLICES; weights need one slice. VW: 1, 4 or 16. CHUNK: the largest chunk, a multiple of VW. PIXELS: of
 * input a multiple of STRIDE. TAPS_Y, TAPS_X, STRIDE, REACH (dilation), PAD: small, since loops over them are unrolled.
 * BIAS, READ_DX: 0 or 1. Forward x is a source of narrow.clh. */
#include "prelude/narrow.clh"
#if !defined(TAPS_Y) || !defined(TAPS_X) || !defined(CHUNK) || !defined(PIXELS)
#error "conv_depthwise.cl needs TAPS_Y, TAPS_X, CHUNK and PIXELS"
#endif
#ifndef STRIDE
#define STRIDE 1
#endif
#ifndef REACH
#define REACH 1
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef LANES
#define LANES 1
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef READ_DX
#define READ_DX 0
#endif
#define TAPS   (TAPS_Y * TAPS_X)
#define SLICES (LOCAL / LANES)

#define DEPTHWISE_SIZES                                                                            \
    const ulong lines, const ulong cols, const ulong chunks, const ulong chunk,                    \
        const ulong group_lines, const int height, const int width, const int out_height, const int out_width,              \
        const int stride_y, const int reach_y, const int pad_y
#define DEPTHWISE_SLICE ((int)get_local_id(0) / LANES)

/* The group's channels: the first one, and how many. */
#define FIRST_CHANNEL (get_group_id(0) % chunks * chunk)
#define CHANNELS      min(chunk, cols - FIRST_CHANNEL)

#define SPLIT (get_group_id(0) / chunks)
#define FOR_GROUP_LINES(line)                                                                      \
    for (ulong line = SPLIT * group_lines,                                               \
               last_line = min(line + group_lines, lines);                                         \
         line < last_line; line++)
#define FOR_BLOCKS(j, all)                                                                         \
    for (int j = DEPTHWISE_SLICE * PIXELS; j < (all); j += SLICES * PIXELS)

/* Vectors at c of the group's channels. A single lane moves its last vector back to whole channels, so some are
 * computed twice. */
#define FOR_CHANNELS(k, c)                                                                         \
    for (ulong k = (get_local_id(0) % LANES) * VW, c = last_vector(k, channels); k < channels;     \
         k += LANES * VW, c = last_vector(k, channels))

static inline ulong last_vector(const ulong k, const ulong channels)
{
    return LOCAL == 1 && channels >= VW ? min(k, channels - VW) : k;
}

#if VW == 16
typedef float16 __attribute__((aligned(4))) local_vec;
#elif VW == 4
typedef float4 __attribute__((aligned(4))) local_vec;
#else
typedef float local_vec;
#endif
#define WEIGHT(t, c) (*(local const local_vec *)(weights + (t) * CHUNK + (c)))

INLINED void load_weights(global const float *w, const ulong ld, const ulong channels, local float *weights)
{
    for (uint c = get_local_id(0); c < channels; c += LOCAL)
        for (uint t = 0; t < TAPS; t++)
            weights[t * CHUNK + c] = w[c * ld + t];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Pixel q of a source line serves result pixel (q - b * REACH) / STRIDE by tap b, if that is whole. */
#define SOURCE_PIXELS  ((PIXELS - 1) * STRIDE + (TAPS_X - 1) * REACH + 1)
#define SERVES(q, b)                                                                               \
    ((q) >= (b)*REACH && ((q) - (b)*REACH) % STRIDE == 0 && ((q) - (b)*REACH) / STRIDE < PIXELS)
#define SERVED(q, b)   (((q) - (b)*REACH) / STRIDE)

#if BF16_IN
typedef ushort source;
#define LOAD_SOURCE(p, left) load_narrow(p, left, 0)
#else
typedef float source;
#define LOAD_SOURCE(p, left) load_part(p, left, 0)
#endif

KERNEL_OF(LOCAL) conv_depthwise_forward(DEPTHWISE_SIZES, MAT_SOURCE(x), MAT_IN_RESTRICT(w),
    MAT_IN_RESTRICT(bias), MAT_OUT_RESTRICT(y))
{
    LOCAL_FLOATS(weights, TAPS * CHUNK);
    const ulong first = FIRST_CHANNEL, channels = CHANNELS;
    load_weights(ROW(w, first), w_ld, channels, weights);
    FOR_GROUP_LINES(line) {
        const int top = (int)(line % out_height) * stride_y - pad_y;
        const ulong image = line / out_height * height;
        FOR_BLOCKS(j, out_width) {
            const int left = j * STRIDE - PAD;
            FOR_CHANNELS(k, c) {
                const ulong there = channels - c;
                vec sum[PIXELS];
                UNROLLED(i, PIXELS)
                    sum[i] = BIAS ? load_part(ROW(bias, 0) + first + c, there, 0) : (vec)(0.0f);
                for (int a = 0; a < TAPS_Y; a++) {
                    const int row = top + a * reach_y;
                    if (row < 0 || row >= height)
                        continue;
                    global const source *from = ROW(x, (image + row) * width) + first + c;
                    vec tap[TAPS_X];
                    UNROLLED(b, TAPS_X)
                        tap[b] = WEIGHT(a * TAPS_X + b, c);
                    if (LOCAL == 1 && a >= TAPS_Y - stride_y) /* no line before this one read it */
                        UNROLLED(q, PIXELS * STRIDE)
                            PREFETCH(from + (left + (int)(q + SOURCE_PIXELS)) * (long)x_ld);
                    UNROLLED(q, SOURCE_PIXELS)
                        if (left + (int)q >= 0 && left + (int)q < width) {
                            const vec v = LOAD_SOURCE(from + (left + (int)q) * (long)x_ld, there);
                            UNROLLED(b, TAPS_X)
                                if (SERVES(q, b))
                                    sum[SERVED(q, b)] = fma(v, tap[b], sum[SERVED(q, b)]);
                        }
                }
                UNROLLED(i, PIXELS)
                    if (j + (int)i < out_width)
                        store_part(sum[i], ROW(y, line * out_width + j + i) + first + c, there);
            }
        }
    }
}

/* Result pixel j, of a block at a multiple of STRIDE, reaches pixel j * STRIDE - PAD + b * REACH of dx. FIRST_RESULT is
 * the first such j for pixel 0 of the block, relative to block / STRIDE. */
#define FLOOR_DIV(a, b) ((a) >= 0 ? (a) / (b) : -((-(a) + (b)-1) / (b)))
#define FIRST_RESULT    (-FLOOR_DIV((TAPS_X - 1) * REACH - PAD, STRIDE))
#define RESULT_PIXELS   max(FLOOR_DIV(PIXELS - 1 + PAD, STRIDE) - FIRST_RESULT + 1, 0)
#define REACHED(q, b)   ((FIRST_RESULT + (int)(q)) * STRIDE - PAD + (int)(b)*REACH)

/* Forward: y(j) = sum over b of w[b] * x(j * STRIDE + b * REACH - PAD). */
KERNEL_OF(LOCAL) conv_depthwise_input(DEPTHWISE_SIZES, const float beta, MAT_IN_RESTRICT(dy),
    MAT_IN_RESTRICT(w), MAT_OUT_RESTRICT(dx))
{
    LOCAL_FLOATS(weights, TAPS * CHUNK);
    const ulong first = FIRST_CHANNEL, channels = CHANNELS;
    load_weights(ROW(w, first), w_ld, channels, weights);
    FOR_GROUP_LINES(line) {
        const int reached = (int)(line % height) + pad_y;
        const ulong image = line / height * out_height;
        FOR_BLOCKS(p, width) {
            const int left = p / STRIDE + FIRST_RESULT;
            FOR_CHANNELS(k, c) {
                const ulong there = channels - c;
                vec sum[PIXELS];
                UNROLLED(i, PIXELS)
                    sum[i] = 0;
                for (int a = 0; a < TAPS_Y; a++) {
                    const int down = reached - a * reach_y, row = down / stride_y;
                    if (down < 0 || row * stride_y != down || row >= out_height)
                        continue;
                    global const float *from = ROW(dy, (image + row) * out_width) + first + c;
                    vec tap[TAPS_X];
                    UNROLLED(b, TAPS_X)
                        tap[b] = WEIGHT(a * TAPS_X + b, c);
                    if (LOCAL == 1 && a < stride_y)
                        UNROLLED(q, PIXELS / STRIDE)
                            PREFETCH(from + (left + (int)(q + RESULT_PIXELS)) * (long)dy_ld);
                    UNROLLED(q, RESULT_PIXELS)
                        if (left + (int)q >= 0 && left + (int)q < out_width) {
                            const vec v = load_part(from + (left + (int)q) * (long)dy_ld, there, 0);
                            UNROLLED(b, TAPS_X)
                                if (REACHED(q, b) >= 0 && REACHED(q, b) < PIXELS)
                                    sum[REACHED(q, b)] = fma(v, tap[b], sum[REACHED(q, b)]);
                        }
                }
                UNROLLED(i, PIXELS)
                    if (p + (int)i < width) {
                        global float *to = ROW(dx, line * width + p + i) + first + c;
                        vec v = sum[i];
                        if (READ_DX) { /* channels of the vector before this one are done */
                            const vec old = load_part(to, there, 0);
                            const ivec done = LANES_OF_VEC < (ivec)((int)(k - c));
                            v = fma((vec)(beta), old, v);
                            v = done ? old : v;
                        }
                        store_part(v, to, there);
                    }
            }
        }
    }
}

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
                *to = READ_DX ? fma(beta, *to, part[i]) : part[i];
            }
    }
}
