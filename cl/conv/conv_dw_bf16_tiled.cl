/* Weight gradient of a convolution on tensor cores, of operands that lie in memory as bf16: partial sums over result pixels.
 *
 *     partial[split][P][t * C + c][i] = sum over the result pixels r of `split` of
 *                                       x[source(r, t)][c] * dy[r][P * TILE + i]
 *
 * with source(r, t) as in conv_dw_vector.cl, zeros outside of the image. Group (G * panels + P, split), panels =
 * ceil(outputs / TILE), computes rows t * C + c from G * A_TILE on, of pixels [split * run, (split + 1) * run), in order.
 * bf16_tile.clh has the tiles.
 *
 * A work-item copies 8 channels of one tap, of two pixels. A step takes them DEPTH result pixels on, without divisions:
 * step_x columns and step_y rows of the image, step_at pixels in all; beyond the last column of results, which are wrap_x
 * columns, it goes back to the first one of the next row of results, row_at pixels on; beyond the last one of wrap_y rows
 * to the next image, image_at pixels on.
 *
 * C is a multiple of 8; rows of x and dy begin at multiples of 16 bytes. The images that `run` pixels lie in have below
 * 2^31 pixels. Local memory: 48 KiB, or 36 with M_TILES 2. */
#include "tiles/bf16_tile.clh"
#include "conv/layer.clh"
#include "conv/pixels.clh"
#define COPY_TILES(whole, stage)                                                                   \
    copy_pixels(whole, &in_flight, &a, tiles + (stage)*STAGE, x, x_ld, w);                         \
    copy_part(false, whole, TILE, &in_flight, &b, tiles + (stage)*STAGE + B_AT)

/* The image's sides, and the steps from pixel to pixel: kernel arguments, which take no registers. */
typedef struct walk {
    int width, height, step_x, step_y, step_at, wrap_x, row_at, stride_y, wrap_y, image_at;
} walk;

/* What a work-item copies of x: of two pixels ROWS_APART result pixels apart, the column and the row of its tap's source, and
 * the number of that pixel from the split's first image on. */
#define ROWS_APART (LOCAL / (A_TILE / 8))
typedef struct pixels {
    int x[2], y[2], at[2];
    int end_x, end_y; /* of the tap's sources */
    uint to;          /* its place in a tile */
    int left;         /* of the result pixels, from the first one on */
} pixels;

INLINED void copy_pixels(const bool whole, copies *c, pixels *p, local uint4 *tile, global const ushort *x,
    const ulong ld, const walk w)
{
    UNROLLED(i, 2) {
        const bool inside = (uint)p->x[i] < (uint)w.width && (uint)p->y[i] < (uint)w.height;
        copy_async(c, tile + p->to + i * LOCAL, x + (long)p->at[i] * (long)ld,
            inside && (whole || p->left > (int)i * ROWS_APART));
        p->x[i] += w.step_x;
        p->y[i] += w.step_y;
        p->at[i] += w.step_at;
        if (p->x[i] >= p->end_x) {
            p->x[i] -= w.wrap_x;
            p->y[i] += w.stride_y;
            p->at[i] += w.row_at;
        }
        if (p->y[i] >= p->end_y) {
            p->y[i] -= w.wrap_y;
            p->at[i] += w.image_at;
        }
    }
    p->left -= DEPTH;
}

KERNEL_OF(LOCAL) conv_dw_bf16_tiled(const ulong batch, const uint channels, const uint outputs, LAYER_PARAMETERS,
    const int step_x, const int step_y, const int step_at, const int wrap_x, const int row_at, const int wrap_y,
    const int image_at, const ulong run, global const ushort *restrict x_buffer, const ulong x_offset, const ulong x_ld,
    global const ushort *restrict dy_buffer, const ulong dy_offset, const ulong dy_ld, REGION_OUT(float, partial))
{
    DECLARE_STAGES
    const layer l = LAYER;
    const walk w = {image_width, image_height, step_x, step_y, step_at, wrap_x, row_at, stride_y, wrap_y, image_at};
    const uint panels = (outputs - 1) / TILE + 1, panel = (uint)get_group_id(0) % panels;
    const uint first_m = (uint)get_group_id(0) / panels * A_TILE, all_m = taps * channels;
    const ulong begin = get_group_id(1) * run;
    const uint count = (uint)min(run, batch * height * width - begin);
    const pixel first = pixel_of(begin, height, width);
    const uint row = (uint)get_local_id(0) / (A_TILE / 8), chunk = (uint)get_local_id(0) % (A_TILE / 8);
    const uint m = min(first_m + 8 * chunk, all_m - 8); /* rows beyond are not used */
    const int2 shift = shift_of(l, m / channels);
    global const ushort *x =
        x_buffer + x_offset + first.image * image_height * image_width * x_ld + m % channels;
    pixels a = {.end_x = shift.x + wrap_x,
        .end_y = shift.y + wrap_y,
        .to = A_TILE / 8 * row + (chunk ^ row % 8),
        .left = (int)count - (int)row};
    UNROLLED(i, 2) {
        const pixel p = pixel_after(first, row + i * ROWS_APART, height, width);
        a.x[i] = (int)p.v * stride_x + shift.x;
        a.y[i] = (int)p.u * stride_y + shift.y;
        a.at[i] = ((int)(p.image - first.image) * (int)image_height + a.y[i]) * (int)image_width + a.x[i];
    }
    part b = begin_part(false, TILE, dy_buffer + dy_offset + begin * dy_ld, dy_ld, panel * TILE, outputs, count);
    SUM_STAGES(count, false, false)
    partial += partial_offset + (get_group_id(1) * panels + panel) * all_m * TILE + (ulong)first_m * TILE;
    UNROLLED(r, RESULTS)
        if (first_m + RESULT_ROW(r) < all_m)
            UNROLLED(h, RESULT_PARTS)
                *(global result_vector *)(partial + RESULT_ROW(r) * TILE + RESULT_COLUMN(h)) = get_result(sum, r, h);
}
