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
 * `entries` has AHEAD elements behind the last entry. Local memory: SEG * PANEL * 4 bytes, with DIRECT
 * plus direct.clh's. CB divides BC, CB * V accumulators. IMAGES: the most `images`. */
#include "conv/direct.clh"
#if !defined(BC) || !defined(SEG) || !defined(IMAGES) || !defined(AHEAD)
#error "conv_dw_pruned_vector.cl needs BC, SEG, IMAGES and AHEAD"
#endif
#define LINE 16 /* floats of a cache line */

#ifndef CENTRED
#define CENTRED 0
#endif
#if CENTRED
#define IF_CENTRED(...) __VA_ARGS__
#else
#define IF_CENTRED(...)
#endif

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

/* sum = the sum over down x across pixels of a panel whose rows have `pitch` pixels. */
static inline void sum_pixels(float16 *sum, local const float *from, const uint down, const uint across,
    const uint pitch)
{
    float16 total[V];
#pragma unroll
    for (int h = 0; h < V; h++)
        total[h] = (float16)(0.0f);
    for (uint u = 0; u < down; u++)
        for (uint v = 0; v < across; v++)
#pragma unroll
            for (int h = 0; h < V; h++)
                total[h] += vload16(h, from + ((ulong)u * pitch + v) * PANEL);
#pragma unroll
    for (int h = 0; h < V; h++)
        sum[h] = total[h];
}

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_dw_pruned_vector(const ulong batch,
    const uint outputs, const uint image_height, const uint image_width, const uint height,
    const uint width, const uint taps, const uint kernel_width, const int stride_y, const int stride_x,
    const int padding_y, const int padding_x, const int dilation_y, const int dilation_x,
    const ulong block_cols, const uint segment, const ulong segments, const ulong images,
    const int low_y, const int low_x, const uint margin_y, const uint pitch, const ulong keep,
    const ulong panels, const ulong panel_run, MAT_IN_RESTRICT(dy), const ulong values_offset,
    global const float *restrict values, const ulong starts_offset, global const uint *restrict starts,
    const ulong entries_offset, global const uint2 *restrict entries, const ulong partial_offset,
    global float *restrict partial IF_CENTRED(, const uint channels, MAT_IN_RESTRICT(means))
        DIRECT_ARGUMENTS)
{
    local float16 panel_vectors[SEG * V]; /* as vectors, for their alignment */
    IF_DIRECT(local float16 columns[16 * V], space[16];)
    local float *panel = (local float *)panel_vectors;
    const ulong first_panel = get_group_id(0) * panel_run;
    const ulong end_panel = min(first_panel + panel_run, panels);
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    const ulong first_image = split * batch / splits, end_image = (split + 1) * batch / splits;
    const ulong panel_size = taps * block_cols * BC * PANEL;
    const uint classes = (uint)(stride_y * stride_x);
    const uint steps = (image_height + (uint)stride_y - 1) / (uint)stride_y;
    values += values_offset;
    starts += starts_offset;
    entries += entries_offset;
    partial += partial_offset + split * panels * panel_size;

    for (ulong n = first_image; n < end_image; n += images)
        for (ulong s = 0; s < segments; s++) {
            const bool fresh = n == first_image && s == 0;
            IF_DIRECT(const bool last = n + images >= end_image && s + 1 == segments;)
            const uint count = (uint)min(images, end_image - n);
            const uint high = min(segment, steps - (uint)s * segment) + margin_y;
            const int top = (int)((uint)s * segment) + low_y;
            for (ulong p = first_panel; p < end_panel; p++) {
                const uint inside = (uint)min((ulong)PANEL, outputs - p * PANEL);
                local float *to = panel;
                for (uint m = 0; m < count; m++)
                    for (uint u = 0; u < high; u++)
                        for (uint v = 0; v < pitch; v++, to += PANEL) {
                            const uint i = (uint)(top + (int)u), j = (uint)(low_x + (int)v);
                            const bool there = i < height && j < width;
                            copy_outputs(to,
                                ROW(dy, there ? ((n + m) * height + i) * width + j : 0) + p * PANEL,
                                there ? inside : 0);
                        }
                for (uint t = 0; t < taps; t++) {
                    const int2 y = tap_shift((int)(t / kernel_width), stride_y, padding_y, dilation_y);
                    const int2 x = tap_shift((int)(t % kernel_width), stride_x, padding_x, dilation_x);
                    const uint class = (uint)(y.x * stride_x + x.x);
                    local const float *shifted =
                        panel + ((ulong)(y.y - low_y) * pitch + (ulong)(x.y - low_x)) * PANEL;
#if CENTRED
                    float16 served[IMAGES][V];
                    const uint down = pixels_from((uint)s * segment * (uint)stride_y + (uint)y.x,
                        (uint)stride_y, image_height, high - margin_y);
                    const uint across =
                        pixels_from((uint)x.x, (uint)stride_x, image_width, image_width);
                    for (uint m = 0; m < count; m++)
                        sum_pixels(
                            served[m], shifted + (ulong)m * high * pitch * PANEL, down, across, pitch);
#endif
                    for (ulong j = 0; j < block_cols; j++)
                        for (uint c = 0; c < BC; c += CB) {
                            global float *tile = partial + p * panel_size +
                                                 ((t * block_cols + j) * BC + c) * PANEL;
                            float16 sum[CB][V];
#pragma unroll
                            for (int b = 0; b < CB; b++)
#pragma unroll
                                for (int h = 0; h < V; h++)
                                    sum[b][h] =
                                        fresh ? (float16)(0.0f) : LOAD16(tile + 16 * (b * V + h));
                            for (uint m = 0; m < count; m++) {
                                global const uint *start =
                                    starts +
                                    (((n + m) * segments + s) * classes + class) * (block_cols + 1) + j;
                                global const uint *entry =
                                    (global const uint *)(entries + (n + m) * keep + start[0]);
                                global const uint *end = entry + 2 * (ulong)(start[1] - start[0]);
                                global const float *kept = values + (n + m) * keep * BC + c;
                                local const float *of_image = shifted + (ulong)m * high * pitch * PANEL;
                                for (; entry < end; entry += 2) {
                                    if (t == 0)
                                        PREFETCH(kept + (ulong)entry[2 * AHEAD + 1] * BC);
                                    local const float *dy_row = of_image + (ulong)entry[0] * PANEL;
                                    global const float *block = kept + (ulong)entry[1] * BC;
                                    float16 d[V];
#pragma unroll
                                    for (int h = 0; h < V; h++)
                                        d[h] = vload16(h, dy_row);
#pragma unroll
                                    for (int b = 0; b < CB; b++)
#pragma unroll
                                        for (int h = 0; h < V; h++)
                                            sum[b][h] = fma((float16)(block[b]), d[h], sum[b][h]);
                                }
#if CENTRED
                                global const float *mean = ROW(means, n + m);
#pragma unroll
                                for (uint b = 0; b < CB; b++) {
                                    const float16 value = mean[min((uint)j * BC + c + b, channels - 1)];
#pragma unroll
                                    for (int h = 0; h < V; h++)
                                        sum[b][h] = fma(value, served[m][h], sum[b][h]);
                                }
#endif
                            }
                            IF_DIRECT(if (last) {
                                write_tile(sum, (uint)j * BC + c, columns, space, inside, beta,
                                    &AT(dw, p * PANEL, t * block_cols * BC), dw_ld);
                                continue;
                            })
#pragma unroll
                            for (int b = 0; b < CB; b++)
#pragma unroll
                                for (int h = 0; h < V; h++)
                                    STORE16(sum[b][h], tile + 16 * (b * V + h));
                        }
                }
            }
        }
}
