/* Weight gradient of a convolution for GPUs: partial sums over result pixels of dy^T * (source under a tap).
 *
 *     partial[split][P][t * C + c][i] = sum over the result pixels r of `split` of
 *                                       dy[r][P * A_TILE + i] * x[source(r, t)][c]
 *
 * with source(r, t) as in conv_dw_vector.cl; r counts the result pixels of all images. Group
 * ((t * parts + G) * panels + P, split), parts = ceil(C / TILE) and panels = ceil(outputs / A_TILE),
 * computes the A_TILE outputs of panel P for tap t and the TILE channels from G * TILE on; gemm_tile.clh has
 * the tiles. Split s takes pixels [s * run, (s + 1) * run).
 *
 * POOLED: x holds the means of cells of `cell` x `cell` source pixels, r counts the cells of all images,
 * and dy[r] is replaced by the sum of dy over the result pixels whose source under the tap is in the
 * cell. With BITS and GROUP x is quantised (quantise.clh).
 *
 * Local memory: 2 * DEPTH * (A_TILE + TILE) * 4 bytes. XV, DYV 4: rows of x or dy begin at multiples of 16 bytes
 * and have a multiple of 4 elements; else 1. */
#include "conv/layer.clh"
#include "prelude/gemm_tile.clh"
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

#if POOLED
#define READ(from)                                                                                 \
    for (uint i = 0; i < READS_OF(A_TILE); i++) {                                                  \
        const ulong r = (from) + DOWN(A_TILE) + 4 * i, of_x = (from) + DOWN(TILE) + 4 * i;         \
        const bool there = r < last;                                                               \
        const uint top = (uint)(r / cells_x % cells_y) * cell, left = (uint)(r % cells_x) * cell;  \
        const uint2 rows = reaching(0, (int)height, stride_y, shift.y, (int)top,                   \
            (int)min(top + cell, image_height));                                                   \
        const uint2 cols = reaching(                                                               \
            0, (int)width, stride_x, shift.x, (int)left, (int)min(left + cell, image_width));      \
        a_read[i] = (float4)(0.0f);                                                                \
        for (uint u = rows.x; there && u < rows.y; u++)                                            \
            for (uint v = cols.x; v < cols.y; v++)                                                 \
                a_read[i] += read_four(                                                            \
                    ROW(dy, (r / cells_x / cells_y * height + u) * width + v) + output,            \
                    outputs - output, DYV);                                                        \
        b_read[i] = READ_X(of_x < last ? of_x : 0, channel, of_x < last ? channels - channel : 0); \
    }                                                                                              \
    for (uint i = READS_OF(A_TILE); i < READS_OF(TILE); i++) {                                     \
        const ulong of_x = (from) + DOWN(TILE) + 4 * i;                                            \
        b_read[i] = READ_X(of_x < last ? of_x : 0, channel, of_x < last ? channels - channel : 0); \
    }
#else
#define READ(from)                                                                                 \
    for (uint i = 0; i < READS_OF(TILE); i++) {                                                    \
        const ulong r = (from) + DOWN(TILE) + 4 * i, of_dy = (from) + DOWN(A_TILE) + 4 * i;        \
        const bool there = r < last, dy_there = of_dy < last;                                      \
        if (i < READS_OF(A_TILE))                                                                  \
            a_read[i] = read_four(                                                                 \
                ROW(dy, dy_there ? of_dy : 0) + output, dy_there ? outputs - output : 0, DYV);     \
        const int u = (int)((uint)(r / width % height) * stride_y) + shift.y;                      \
        const int v = (int)((uint)(r % width) * stride_x) + shift.x;                               \
        const bool inside = there && (uint)u < image_height && (uint)v < image_width;              \
        const ulong pixel =                                                                        \
            inside ? (r / width / height * image_height + (uint)u) * image_width + (uint)v : 0;    \
        b_read[i] = READ_X(pixel, channel, inside ? channels - channel : 0);                       \
    }
#endif
#define WRITE(t)                                                                                   \
    write_part(false, a_tile + (t)*SIZE_OF(A_TILE), A_TILE, a_read),                               \
        write_part(false, b_tile + (t)*SIZE_OF(TILE), TILE, b_read)

KERNEL_OF(LOCAL) CONV_DW_TILED(const ulong batch, const uint channels, const uint outputs,
    LAYER_PARAMETERS, const uint cell, const ulong run, X_IN, MAT_IN_RESTRICT(dy),
    REGION_OUT(float, partial))
{
    DECLARE_TILES
    const uint parts = (channels + TILE - 1) / TILE;
    const uint panels = (outputs - 1) / A_TILE + 1;
    const uint panel = (uint)get_group_id(0) % panels, part = (uint)get_group_id(0) / panels;
    const uint t = part / parts, first_channel = part % parts * TILE;
    const uint channel = min(first_channel + (uint)ACROSS(TILE), channels);
    const uint output = min(panel * A_TILE + (uint)ACROSS(A_TILE), outputs);
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
    const uint mine_y = get_local_id(0) / 8, mine_x = get_local_id(0) % 8;
    SUM_TILES(begin, last, DEPTH, mine_x, mine_y)
    /* y and x are swapped: work-item (y, x) holds outputs 4 x .. of channels 4 y .., as rows of partial run
     * along the outputs. */
    global float *to = partial + partial_offset +
                       ((get_group_id(1) * panels + panel) * taps + t) * channels * A_TILE;
    UNROLLED(h, 2)
        UNROLLED(j, 4) {
            const uint c = first_channel + 32 * h + 4 * mine_y + j;
            if (c >= channels)
                continue;
            UNROLLED(i, ROWS) {
                float four[4];
                vstore4(sum[i][h], 0, four);
                to[(ulong)c * A_TILE + i / 4 * 32 + 4 * mine_x + i % 4] = four[j];
            }
        }
}
