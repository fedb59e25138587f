/* Weight gradient of a convolution for GPUs: partial sums over result pixels of dy^T * (source under each tap).
 *
 *     partial[split][P][t * C + c][i] = sum over the result pixels r of `split` of
 *                                       dy[r][P * TILE + i] * x[source(r, t)][c]
 *
 * with source(r, t) as in conv_dw_vector.cl, zeros outside of the image; r counts the result pixels of all images.
 * Slices of channels under all taps are the rows m of the product, so few channels waste little, and what one tap
 * read of x is read by the next one from the first-level cache:
 *
 *      m:    slice 0: tap 0     tap 1     ...     slice 1: tap 0     tap 1
 *            +--------------+---------+- ... -+------------------+---------+- ...     +------------+
 *         r  | channels 0.. | 0..     |       | channels slice.. | slice.. |       dy | TILE       |
 *            +-----------|--+--------|+------ +-|----------------+|--------+- ...     +------------+
 *               group 0    group 1      group 2: A_TILE rows       DEPTH pixels r a step
 *
 *      m = (c / slice * taps + t) * slice + c % slice; slice divides C, and XV divides slice; all rows are below 2^31
 *
 * Group (G * panels + P, split), panels = ceil(outputs / TILE), computes the rows from G * A_TILE on; gemm_tile.clh
 * has the tiles. Split s takes pixels [s * run, (s + 1) * run), run at most 2^30. A work-item reads four rows, whose
 * taps do not change. A ring in local memory has the pixels of the next steps: where each lies in x without a tap, and
 * a bit for each tap row and tap column that stays inside the image. Half the work-items write half of the ring as soon
 * as that was read.
 *
 * With BITS and GROUP x is quantised (quantise.clh).
 *
 * Local memory: 2 * (TILE_SIZE(A_TILE) + TILE_SIZE(TILE)) + LOCAL vectors of 16 bytes. At most 16 rows and 16 columns of
 * taps. DYV 4: rows of dy begin at multiples of 16 bytes and have a multiple of 4 elements; else 1. XV 4: so do those of
 * x, or they are codes and have a multiple of 4 elements; else 1. */
#include "conv/layer.clh"
#include "conv/pixels.clh"
#include "tiles/gemm_tile.clh"
#include "prelude/quantise.clh"
#if !defined(XV) || !defined(DYV)
#error "conv_dw_tiled.cl needs XV and DYV"
#endif
#define PARTS (4 / XV) /* of four rows, which lie in taps of their own */
#define RING  LOCAL    /* pixels */
#if RING % (2 * DEPTH) != 0
#error "a ring has two halves of whole steps"
#endif

/* A row of the product: its tap's bits, its channel, and where it lies relative to a pixel of x: in bytes, or of
 * codes in pixels, without the channel. */
typedef struct source {
    uint bits, c;
    long offset;
} source;

/* Tap and channel of row m. */
static inline uint2 tap_and_channel(const uint m, const uint taps, const uint slice)
{
    const uint row = m / slice;
    return (uint2)(row % taps, row / taps * slice + m % slice);
}

#ifdef BITS
#define CONV_DW_TILED  conv_dw_tiled_quantised
#define X_IN           QUANTISED_IN(x)
#define PIXEL          1ul
#define CHANNEL_OFFSET 0
#define READ_X(t, pixel)                                                                           \
    (XV == 4 ? dequantise_four(CODES(t, pixel), t.c, 1)                                            \
             : (float4)(dequantise_one(CODES(t, pixel), t.c)))
#define CODES(t, pixel)                                                                            \
    x.codes + ((ulong)t.offset + pixel) * x.ld, x.groups + ((ulong)t.offset + pixel) * x.groups_ld
#else
#define CONV_DW_TILED  conv_dw_tiled
#define X_IN           MAT_IN_RESTRICT(x)
#define PIXEL          (x_ld * sizeof(float))
#define CHANNEL_OFFSET sizeof(float)
#define READ_X(t, pixel)                                                                           \
    (XV == 4 ? *(global const float4 *)(x_bytes + t.offset + pixel)                                \
             : (float4)(*(global const float *)(x_bytes + t.offset + pixel)))
#endif

/* Pixel i of a split of `count`: its offset in x in two words, and its bits. */
static inline uint4 place_of(const pixel first, const uint i, const uint count, const layer a, const ulong unit)
{
    const pixel p = pixel_after(first, i, a.height, a.width);
    const uint y = p.u * (uint)a.stride_y, x = p.v * (uint)a.stride_x;
    const ulong offset = ((p.image * a.image_height + y) * a.image_width + x) * unit;
    const uint inside = reached((int)y - a.padding_y, a.taps / a.kernel_width, a.dilation_y, a.image_height) << 16 |
                        reached((int)x - a.padding_x, a.kernel_width, a.dilation_x, a.image_width);
    return (uint4)(as_uint2(offset), i < count ? inside : 0, 0);
}

/* Rows of both operands run across the sum: a is x, b is dy. Steps are read in order, and dy_row moves along. */
#define READ(from)                                                                                 \
    const uint r = (uint)(from);                                                                   \
    if (r > 0 && r % (RING / 2) == 0 && id < RING / 2)                                             \
        ring[(r + RING / 2 + id) % RING] = place_of(first, r + RING / 2 + id, count, a, PIXEL);    \
    UNROLLED(i, READS(A_TILE)) {                                                                   \
        const uint4 place = ring[r % RING + ACROSS_K(A_TILE, i)];                                  \
        UNROLLED(part, PARTS) {                                                                    \
            const bool inside = (sources[part].bits & ~place.z) == 0;                                \
            const float4 value =                                                                   \
                inside ? READ_X(sources[part], as_ulong(place.xy)) : (float4)(0.0f);                 \
            if (XV == 4)                                                                           \
                a_read[i] = value;                                                                 \
            else                                                                                   \
                ((float *)(a_read + i))[part] = value.s0;                                          \
        }                                                                                          \
    }                                                                                              \
    UNROLLED(i, READS(TILE)) {                                                                     \
        global const float *row = dy_row + (ACROSS_K(TILE, i) - ACROSS_K(TILE, 0)) * dy_ld;        \
        const bool there = r + ACROSS_K(TILE, i) < count;                                          \
        b_read[i] = read_four(row, there ? DYV == 4 ? 4 : outputs - output : 0, DYV);              \
    }                                                                                              \
    dy_row += DEPTH * dy_ld

KERNEL_OF(LOCAL) CONV_DW_TILED(const ulong batch, const uint channels, const uint outputs,
    LAYER_PARAMETERS, const uint slice, const ulong run, X_IN, MAT_IN_RESTRICT(dy), REGION_OUT(float, partial))
{
    DECLARE_TILES
    local uint4 ring[RING];
    const uint id = (uint)get_local_id(0);
    const uint panels = (outputs - 1) / TILE + 1, panel = (uint)get_group_id(0) % panels;
    const uint first_m = (uint)get_group_id(0) / panels * A_TILE;
    const uint last_row = min((uint)A_TILE - 1, taps * channels - 1 - first_m);
    const uint output = min(panel * TILE + ACROSS_X(TILE), outputs - DYV); /* columns beyond are not used */
    const layer a = LAYER;
#ifdef BITS
    const quantised x = QUANTISED(x, 0);
#else
    global const char *x_bytes = (global const char *)(x_buffer + x_offset);
#endif
    const ulong begin = get_group_id(1) * run;
    const uint count = (uint)min(run, batch * height * width - begin);
    const pixel first = pixel_of(begin, height, width);
    ring[id] = place_of(first, id, count, a, PIXEL);
    source sources[PARTS];
    UNROLLED(part, PARTS) {
        const uint2 tc = tap_and_channel(first_m + min(ACROSS_X(A_TILE) + part, last_row + 1 - XV), taps, slice);
        const int2 shift = shift_of(a, tc.x);
        sources[part].bits = TAP_BITS(tc.x / kernel_width, tc.x % kernel_width);
        sources[part].c = tc.y;
        sources[part].offset =
            ((long)shift.y * image_width + shift.x) * (long)PIXEL + (long)(tc.y * CHANNEL_OFFSET);
    }
    global const float *dy_row = ROW(dy, begin + ACROSS_K(TILE, 0)) + output;
    barrier(CLK_LOCAL_MEM_FENCE);
    SUM_TILES(0ul, count, DEPTH, false, false)
    partial += partial_offset + (get_group_id(1) * panels + panel) * taps * channels * TILE;
    UNROLLED(r, RESULTS)
        if (RESULT_ROW(r) <= last_row) {
            const uint2 tc = tap_and_channel(first_m + RESULT_ROW(r), taps, slice);
            global float *to = partial + ((ulong)tc.x * channels + tc.y) * TILE;
            UNROLLED(h, RESULT_PARTS)
                *(global result_vector *)(to + RESULT_COLUMN(h)) = get_result(sum, r, h);
        }
}
