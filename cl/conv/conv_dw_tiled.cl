/* Weight gradient of a convolution for GPUs: partial sums over result pixels of dy^T * (source under a tap).
 *
 *     partial[split][P][t * C + c][i] = sum over the result pixels r of `split` of
 *                                       dy[r][P * TILE + i] * x[source(r, t)][c]
 *
 * with source(r, t) as in conv_dw_vector.cl; r counts the result pixels of all images. Group
 * ((t * parts + G) * panels + P, split), parts = ceil(C / A_TILE) and panels = ceil(outputs / TILE), computes
 * the TILE outputs of panel P for tap t and the A_TILE channels from G * A_TILE on; gemm_tile.clh has the
 * tiles. Split s takes pixels [s * run, (s + 1) * run).
 *
 * POOLED: x holds the means of cells of `cell` x `cell` source pixels, r counts the cells of all images,
 * and dy[r] is replaced by the sum of dy over the result pixels whose source under the tap is in the
 * cell. With BITS and GROUP x is quantised (quantise.clh).
 *
 * Local memory: 2 * (TILE_SIZE(A_TILE) + TILE_SIZE(TILE)) * 16 bytes. XV, DYV 4: rows of x or dy begin at
 * multiples of 16 bytes and have a multiple of 4 elements; else 1. */
#include "conv/layer.clh"
#include "tiles/gemm_tile.clh"
#include "prelude/quantise.clh"
#if !defined(XV) || !defined(DYV) || !defined(POOLED)
#error "conv_dw_tiled.cl needs XV, DYV and POOLED"
#endif

#ifdef BITS
#define CONV_DW_TILED          conv_dw_tiled_quantised
#define X_IN                   QUANTISED_IN(x)
#define READ_X(pixel, c, left) dequantise_four(x.codes + (pixel)*x.ld, x.groups + (pixel)*x.groups_ld, c, left)
#else
#define CONV_DW_TILED          conv_dw_tiled
#define X_IN                   MAT_IN_RESTRICT(x)
#define READ_X(pixel, c, left) read_four(ROW(x, pixel) + (c), left, XV)
#endif

/* Rows of both operands run across the sum: a is x, b is dy. */
#if POOLED
#define READ(from)                                                                                 \
    UNROLLED(i, READS(TILE)) {                                                                     \
        const ulong r = (from) + ACROSS_K(TILE, i);                                                \
        const bool there = r < last;                                                               \
        const uint top = (uint)(r / cells_x % cells_y) * cell, left = (uint)(r % cells_x) * cell;  \
        const uint2 rows = reaching(0, (int)height, stride_y, shift.y, (int)top,                   \
            (int)min(top + cell, image_height));                                                   \
        const uint2 cols = reaching(0, (int)width, stride_x, shift.x, (int)left,                   \
            (int)min(left + cell, image_width));                                                   \
        b_read[i] = (float4)(0.0f);                                                                \
        for (uint u = rows.x; there && u < rows.y; u++)                                            \
            for (uint v = cols.x; v < cols.y; v++)                                                 \
                b_read[i] += read_four(                                                            \
                    ROW(dy, (r / cells_x / cells_y * height + u) * width + v) + output,            \
                    outputs - output, DYV);                                                        \
    }                                                                                              \
    UNROLLED(i, READS(A_TILE)) {                                                                   \
        const ulong r = (from) + ACROSS_K(A_TILE, i);                                              \
        a_read[i] = READ_X(r < last ? r : 0, channel, r < last ? channels - channel : 0);          \
    }
#else
#define READ(from)                                                                                 \
    UNROLLED(i, READS(TILE)) {                                                                     \
        const ulong r = (from) + ACROSS_K(TILE, i);                                                \
        const bool there = r < last;                                                               \
        b_read[i] = read_four(ROW(dy, there ? r : 0) + output, there ? outputs - output : 0, DYV); \
    }                                                                                              \
    UNROLLED(i, READS(A_TILE)) {                                                                   \
        const ulong r = (from) + ACROSS_K(A_TILE, i);                                              \
        const bool there = r < last;                                                               \
        const int u = (int)((uint)(r / width % height) * stride_y) + shift.y;                      \
        const int v = (int)((uint)(r % width) * stride_x) + shift.x;                               \
        const bool inside = there && (uint)u < image_height && (uint)v < image_width;              \
        const ulong pixel =                                                                        \
            inside ? (r / width / height * image_height + (uint)u) * image_width + (uint)v : 0;    \
        a_read[i] = READ_X(pixel, channel, inside ? channels - channel : 0);                       \
    }
#endif

KERNEL_OF(LOCAL) CONV_DW_TILED(const ulong batch, const uint channels, const uint outputs,
    LAYER_PARAMETERS, const uint cell, const ulong run, X_IN, MAT_IN_RESTRICT(dy),
    REGION_OUT(float, partial))
{
    DECLARE_TILES
    const uint parts = (channels + A_TILE - 1) / A_TILE;
    const uint panels = (outputs - 1) / TILE + 1;
    const uint panel = (uint)get_group_id(0) % panels, part = (uint)get_group_id(0) / panels;
    const uint t = part / parts, first_channel = part % parts * A_TILE;
    const uint channel = min(first_channel + ACROSS_X(A_TILE), channels);
    const uint output = min(panel * TILE + ACROSS_X(TILE), outputs);
    const layer a = LAYER;
    const int2 shift = shift_of(a, t);
#ifdef BITS
    const quantised x = QUANTISED(x, 0);
#endif
#if POOLED
    const uint cells_y = (image_height + cell - 1) / cell, cells_x = (image_width + cell - 1) / cell;
    const ulong count = batch * cells_y * cells_x;
#else
    const ulong count = batch * height * width;
#endif
    const ulong begin = get_group_id(1) * run, last = min(begin + run, count);
    SUM_TILES(begin, last, DEPTH, false, false)
    global float *to = partial + partial_offset +
                       ((get_group_id(1) * panels + panel) * taps + t) * channels * TILE;
    UNROLLED(r, RESULTS) {
        const uint c = first_channel + RESULT_ROW(r);
        if (c < channels)
            UNROLLED(h, RESULT_PARTS)
                *(global result_vector *)(to + (ulong)c * TILE + RESULT_COLUMN(h)) = get_result(sum, r, h);
    }
}
