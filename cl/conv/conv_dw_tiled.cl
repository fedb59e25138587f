/* Weight gradient of a convolution for GPUs: partial sums over result pixels of dy^T * (source under a tap).
 *
 *     partial[split][P][t * C + c][i] = sum over the result pixels r of `split` of
 *                                       dy[r][P * TILE + i] * x[source(r, t)][c]
 *
 * with source(r, t) as in conv_dw_vector.cl; r counts the result pixels of all images. Group
 * ((t * parts + G) * panels + P, split), parts = ceil(C / TILE) and panels = ceil(outputs / TILE), computes
 * the TILE outputs of panel P for tap t and the TILE channels from G * TILE on; gemm_tile.clh has the
 * tiles. Split s takes pixels [s * run, (s + 1) * run).
 *
 * POOLED: x holds the means of cells of `cell` x `cell` source pixels, r counts the cells of all images,
 * and dy[r] is replaced by the sum of dy over the result pixels whose source under the tap is in the
 * cell. With BITS and GROUP x is quantised (quantise.clh).
 *
 * Local memory: 2 * 2 * DEPTH * TILE * 4 bytes. XV, DYV 4: rows of x or dy begin at multiples of 16 bytes
 * and have a multiple of 4 elements; else 1. */
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
/* The results u of an axis, .x <= u < .y, whose source u * stride + shift lies in a cell. */
static inline int2 results_in(const uint cell, const uint side, const uint image, const uint results,
    const int stride, const int shift)
{
    const int first = (int)(cell * side) - shift, end = (int)min((cell + 1) * side, image) - shift;
    return (int2)(first > 0 ? (first + stride - 1) / stride : 0,
        end > 0 ? min((end + stride - 1) / stride, (int)results) : 0);
}

/* Four floats of two rows each, r and r + 4, of both operands. */
#define READ(from)                                                                                 \
    for (uint i = 0; i < 2; i++) {                                                                 \
        const ulong r = (from) + get_local_id(0) / 16 + 4 * i;                                     \
        const bool there = r < last;                                                               \
        const int2 rows = results_in((uint)(r / cells_x % cells_y), cell, image_height, height,    \
            (int)stride_y, shift_y);                                                               \
        const int2 cols = results_in(                                                              \
            (uint)(r % cells_x), cell, image_width, width, (int)stride_x, shift_x);                \
        a_read[i] = (float4)(0.0f);                                                                \
        for (int u = rows.x; there && u < rows.y; u++)                                             \
            for (int v = cols.x; v < cols.y; v++)                                                  \
                a_read[i] += read_four(                                                            \
                    ROW(dy, (r / cells_x / cells_y * height + (uint)u) * width + (uint)v) + output, \
                    outputs - output, DYV);                                                        \
        b_read[i] = READ_X(there ? r : 0, channel, there ? channels - channel : 0);                \
    }
#else
#define READ(from)                                                                                 \
    for (uint i = 0; i < 2; i++) {                                                                 \
        const ulong r = (from) + get_local_id(0) / 16 + 4 * i;                                     \
        const bool there = r < last;                                                               \
        a_read[i] = read_four(ROW(dy, there ? r : 0) + output, there ? outputs - output : 0, DYV); \
        const int u = (int)((uint)(r / width % height) * stride_y) + shift_y;                      \
        const int v = (int)((uint)(r % width) * stride_x) + shift_x;                               \
        const bool inside = there && (uint)u < image_height && (uint)v < image_width;              \
        const ulong pixel =                                                                        \
            inside ? (r / width / height * image_height + (uint)u) * image_width + (uint)v : 0;    \
        b_read[i] = READ_X(pixel, channel, inside ? channels - channel : 0);                       \
    }
#endif
#define WRITE(t)                                                                                   \
    do {                                                                                           \
        write_across(a_tile + (t)*TILE_SIZE, a_read);                                              \
        write_across(b_tile + (t)*TILE_SIZE, b_read);                                              \
    } while (0)

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void CONV_DW_TILED(const ulong batch,
    const uint channels, const uint outputs, const uint image_height, const uint image_width,
    const uint height, const uint width, const uint taps, const uint kernel_width, const uint stride_y,
    const uint stride_x, const int padding_y, const int padding_x, const int dilation_y,
    const int dilation_x, const uint cell, const ulong run, X_IN, MAT_IN_RESTRICT(dy),
    const ulong partial_offset, global float *restrict partial)
{
    local float4 a_vectors[2 * TILE_SIZE / 4], b_vectors[2 * TILE_SIZE / 4]; /* for their alignment */
    local float *a_tile = (local float *)a_vectors, *b_tile = (local float *)b_vectors;
    const uint parts = (channels + TILE - 1) / TILE;
    const uint panels = (outputs - 1) / TILE + 1;
    const uint panel = (uint)get_group_id(0) % panels, part = (uint)get_group_id(0) / panels;
    const uint t = part / parts, first_channel = part % parts * TILE;
    const uint channel = min(first_channel + (uint)get_local_id(0) % 16 * 4, channels);
    const uint output = min(panel * TILE + (uint)get_local_id(0) % 16 * 4, outputs);
    const int shift_y = (int)(t / kernel_width) * dilation_y - padding_y;
    const int shift_x = (int)(t % kernel_width) * dilation_x - padding_x;
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
    float4 a_read[2], b_read[2], sum[8][2];
#pragma unroll
    for (uint r = 0; r < 8; r++)
        sum[r][0] = sum[r][1] = (float4)(0.0f);
    READ(begin)
    WRITE(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint now = 0;
    for (ulong at = begin; at < last; at += DEPTH) {
        const bool more = at + DEPTH < last;
        if (more)
            READ(at + DEPTH)
        multiply_tiles(
            sum, a_vectors + now * TILE_SIZE / 4, b_vectors + now * TILE_SIZE / 4, mine_x, mine_y);
        now = 1 - now;
        if (more)
            WRITE(now);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    /* y and x are swapped: work-item (y, x) holds outputs 4 x .. of channels 4 y .., as rows of partial run
     * along the outputs. */
    global float *to = partial + partial_offset +
                       ((get_group_id(1) * panels + panel) * taps + t) * channels * TILE;
#pragma unroll
    for (uint h = 0; h < 2; h++)
#pragma unroll
        for (uint j = 0; j < 4; j++) {
            const uint c = first_channel + 32 * h + 4 * mine_y + j;
            if (c >= channels)
                continue;
#pragma unroll
            for (uint i = 0; i < 8; i++) {
                float four[4];
                vstore4(sum[i][h], 0, four);
                to[(ulong)c * TILE + i / 4 * 32 + 4 * mine_x + i % 4] = four[j];
            }
        }
}
