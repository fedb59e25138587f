/* Depthwise convolutions and their gradient of x. w[c][a * TAPS_X + b], x(n, p, q) outside of the image counts as
 * nothing; images, lines and groups: conv_depthwise.clh.
 *
 *     forward    y(n, i, j) = b + sum over a, b of w[a, b] * x(n, i * stride_y + a * reach_y - pad_y, j * STRIDE
 *                + b * REACH - PAD)
 *     input      dx(n, p, q) = sum of w[a, b] * dy(n, i, j) over the taps that reach (p, q)   (+ beta * dx unless beta is 0)
 *
 * Local memory: the weights of the chunk, tap by tap. PIXELS: of input a multiple of STRIDE. BIAS: 0 or 1. Forward x
 * is a source of narrow.clh. */
#include "conv/conv_depthwise.clh"
#ifndef BIAS
#define BIAS 0
#endif

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
                        if (beta != 0) { /* channels of the vector before this one are done */
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
