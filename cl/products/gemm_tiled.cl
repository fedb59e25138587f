/* Dense products for GPUs, all samples of a batch in one launch: c_i = alpha * op(a_i) * op(b_i) +
 * beta * c_i for each sample i, with op(a) of m x inner and op(b) of inner x n.
 *
 *                        op(b), DEPTH rows
 *                      +------+------+------+
 *                      |      | tile |      |           DEPTH: the part of the inner size that
 *                      +------+------+------+           both tiles have in local memory
 *     op(a)   +----+   +------+------+------+
 *             |    |   |      |      |      |           gemm_tile.clh has the arithmetic and the
 *             |tile|   |      |  c   |      |           results of each work-item
 *             +----+   +------+------+------+
 *
 * Group (I * panels + J, 0, i), panels = ceil(n / TILE), computes the A_TILE x TILE results from row I * A_TILE
 * and column J * TILE of sample i; I and J share a dimension, because some GPUs take at most 65535 groups
 * along the second. Both tiles are double-buffered: while one is multiplied, the next is in flight to
 * registers. The inner sum runs in order. Tiles have zeros beyond the inner size, and zeros or repeated rows
 * beyond the edges of c, whose results are not stored. With beta = 0, c is not read. BIAS 1 adds bias[j] to
 * column j, 2 adds bias[r] to row r of each sample, 0 nothing. With BITS and GROUP b is quantised
 * (quantise.clh), and stride_b counts its rows.
 *
 * Local memory: 2 * (TILE_SIZE(A_TILE) + TILE_SIZE(TILE)) * 16 bytes. AV, BV, CV 4: rows of that operand begin at multiples
 * of 16 bytes and have a multiple of 4 elements; else 1. */
#include "tiles/gemm_tile.clh"
#include "products/gemm_result.clh"
#include "prelude/quantise.clh"
#if !defined(TRANSPOSE_A) || !defined(TRANSPOSE_B) || !defined(BIAS) || !defined(AV) || \
    !defined(BV) || !defined(CV)
#error "gemm_tiled.cl needs TRANSPOSE_A, TRANSPOSE_B, BIAS, AV, BV and CV"
#endif

/* A part of a tile: reads a work-item's, from k on, of an operand whose rows run `along` the inner size, or across it.
 * `count`: its rows or columns. */
#define DEFINE_READ_TILE(name, element, four)                                                      \
    static inline void name(const bool along, const uint width, global const element *from,        \
        const ulong ld, const ulong first, const ulong count, const ulong k, const ulong inner,    \
        const uint vector, float4 *read)                                                           \
    {                                                                                              \
        if (along) {                                                                               \
            UNROLLED(i, ALONG_ROWS(width))                                                         \
                UNROLLED(v, ALONG_VECTORS(width)) {                                                \
                    const ulong at = k + ALONG_K(width, v);                                        \
                    read[i * ALONG_VECTORS(width) + v] =                                           \
                        four(from + min(first + ALONG_ROW(width, i), count - 1) * ld + at,         \
                            LEFT(inner, at), vector);                                              \
                }                                                                                  \
            return;                                                                                \
        }                                                                                          \
        const ulong column = min(first + ACROSS_X(width), count);                                  \
        UNROLLED(i, READS(width)) {                                                                \
            const ulong row = k + ACROSS_K(width, i);                                              \
            read[i] = four(from + row * ld + column, row < inner ? count - column : 0, vector);    \
        }                                                                                          \
    }
DEFINE_READ_TILE(read_tile, float, read_four)

/* A_BF16 1: a is of bf16; AV 4 then aligns to 8 bytes. */
#if A_BF16
typedef ushort a_element;
static inline float4 read_four_narrow(global const ushort *p, const ulong left, const uint vector)
{
    ushort4 four = (ushort4)(0);
    if (left > 0 && vector == 4)
        four = *(global const ushort4 *)p;
    else if (left > 0)
        four = (ushort4)(p[0], left > 1 ? p[1] : 0, left > 2 ? p[2] : 0, left > 3 ? p[3] : 0);
    return as_float4((uint4)(four.x, four.y, four.z, four.w) << 16);
}
DEFINE_READ_TILE(read_a_tile, ushort, read_four_narrow)
#else
typedef float a_element;
#define read_a_tile read_tile
#endif

#ifdef BITS
/* The same for a quantised operand. */
static inline void read_codes(const bool along, const quantised b, const ulong first,
    const ulong count, const ulong k, const ulong inner, float4 *read)
{
    if (along) {
        UNROLLED(i, ALONG_ROWS(TILE)) {
            const quantised row = quantised_rows(b, min(first + ALONG_ROW(TILE, i), count - 1));
            UNROLLED(v, ALONG_VECTORS(TILE)) {
                const ulong at = k + ALONG_K(TILE, v);
                read[i * ALONG_VECTORS(TILE) + v] = dequantise_four(row.codes, row.groups, at, LEFT(inner, at));
            }
        }
        return;
    }
    const ulong column = first + ACROSS_X(TILE);
    UNROLLED(i, READS(TILE)) {
        const ulong row = k + ACROSS_K(TILE, i);
        read[i] = dequantise_four(b.codes + row * b.ld, b.groups + row * b.groups_ld, column,
            row < inner && column < count ? count - column : 0);
    }
}

#define GEMM_TILED gemm_tiled_quantised
#define B_IN       QUANTISED_IN(b)
#define READ_B(k)  read_codes(TRANSPOSE_B, b, first_column, n, k, inner, b_read)
#else
#define GEMM_TILED gemm_tiled
#define B_IN       MAT_IN_RESTRICT(b)
#define READ_B(k)  read_tile(TRANSPOSE_B, TILE, b, b_ld, first_column, n, k, inner, BV, b_read)
#endif
#define READ(k)  read_a_tile(!TRANSPOSE_A, A_TILE, a, a_ld, first_row, m, k, inner, AV, a_read), READ_B(k)

KERNEL_OF(LOCAL) GEMM_TILED(const ulong m, const ulong n, const ulong inner_most, const ulong inner_last,
    const float alpha, const float beta, global const a_element *restrict a_buffer, const ulong a_offset,
    const ulong a_ld, const ulong stride_a, B_IN, const ulong stride_b, MAT_RESULT_RESTRICT(c), const ulong stride_c BIAS_IN)
{
    DECLARE_TILES
    const uint group = (uint)get_group_id(0), panels = (uint)((n + TILE - 1) / TILE);
    const ulong first_row = (ulong)(group / panels) * A_TILE;
    const ulong first_column = (ulong)(group % panels) * TILE, sample = get_group_id(2);
    const ulong inner = sample + 1 < get_num_groups(2) ? inner_most : inner_last;
    global const a_element *a = a_buffer + a_offset + sample * stride_a;
#ifdef BITS
    const quantised b = QUANTISED(b, sample * stride_b);
#else
    global const float *b = b_buffer + b_offset + sample * stride_b;
#endif
    SUM_TILES(0, inner, DEPTH, !TRANSPOSE_A, TRANSPOSE_B)
    write_results(sum, alpha, beta, BIAS_HERE, c_buffer + c_offset + sample * stride_c, c_ld, first_row,
        first_column, m, n);
}
