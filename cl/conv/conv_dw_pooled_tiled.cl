/* Weight gradient of a convolution from pooled images, for GPUs: partial sums over cells of dy^T * x.
 *
 *     partial[split][P][t * C + c][i] = sum over the cells r of `split` of x[r][c] * (sum of dy[.][P * TILE + i] over
 *                                       the result pixels whose source under tap t is in the cell)
 *
 * with sources as in conv_dw_vector.cl. x holds the means of cells of `cell` x `cell` source pixels, and r counts the
 * cells of all images. Group ((t * parts + G) * panels + P, split), parts = ceil(C / A_TILE) and panels = ceil(outputs
 * / TILE), computes the TILE outputs of panel P for tap t and the A_TILE channels from G * A_TILE on; gemm_tile.clh
 * has the tiles. Split s takes cells [s * run, (s + 1) * run), run at most 2^30.
 *
 * Local memory: 2 * (TILE_SIZE(A_TILE) + TILE_SIZE(TILE)) * 16 bytes. XV, DYV 4: rows of x or dy begin at
 * multiples of 16 bytes and have a multiple of 4 elements; else 1. */
#include "conv/layer.clh"
#include "conv/pixels.clh"
#include "tiles/gemm_tile.clh"
#if !defined(XV) || !defined(DYV)
#error "conv_dw_pooled_tiled.cl needs XV and DYV"
#endif

/* Rows of both operands run across the sum: a is x, b is dy. */
#define READ(from)                                                                                 \
    UNROLLED(i, READS(TILE)) {                                                                     \
        const uint r = (uint)(from) + ACROSS_K(TILE, i);                                           \
        const pixel p = pixel_after(first, r, cells_y, cells_x);                                   \
        const uint top = p.u * cell, left = p.v * cell;                                            \
        const uint2 rows = reaching(0, (int)height, stride_y, shift.y, (int)top,                   \
            (int)min(top + cell, image_height));                                                   \
        const uint2 cols = reaching(0, (int)width, stride_x, shift.x, (int)left,                   \
            (int)min(left + cell, image_width));                                                   \
        b_read[i] = (float4)(0.0f);                                                                \
        for (uint u = rows.x; r < count && u < rows.y; u++)                                        \
            for (uint v = cols.x; v < cols.y; v++)                                                 \
                b_read[i] += read_four(                                                            \
                    ROW(dy, (p.image * height + u) * width + v) + output, outputs - output, DYV);  \
    }                                                                                              \
    UNROLLED(i, READS(A_TILE)) {                                                                   \
        const uint r = (uint)(from) + ACROSS_K(A_TILE, i);                                         \
        a_read[i] = read_four(                                                                     \
            ROW(x, r < count ? begin + r : 0) + channel, r < count ? channels - channel : 0, XV);  \
    }

KERNEL_OF(LOCAL) conv_dw_pooled_tiled(const ulong batch, const uint channels, const uint outputs,
    LAYER_PARAMETERS, const uint cell, const ulong run, MAT_IN_RESTRICT(x), MAT_IN_RESTRICT(dy),
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
    const uint cells_y = (image_height + cell - 1) / cell, cells_x = (image_width + cell - 1) / cell;
    const ulong begin = get_group_id(1) * run;
    const uint count = (uint)min(run, batch * cells_y * cells_x - begin);
    const pixel first = pixel_of(begin, cells_y, cells_x);
    SUM_TILES(0ul, count, DEPTH, false, false)
    global float *to = partial + partial_offset +
                       ((get_group_id(1) * panels + panel) * taps + t) * channels * TILE;
    UNROLLED(r, RESULTS) {
        const uint c = first_channel + RESULT_ROW(r);
        if (c < channels)
            UNROLLED(h, RESULT_PARTS)
                *(global result_vector *)(to + (ulong)c * TILE + RESULT_COLUMN(h)) = get_result(sum, r, h);
    }
}
