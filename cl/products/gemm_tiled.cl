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
#include "prelude/quantise.clh"
#if !defined(TRANSPOSE_A) || !defined(TRANSPOSE_B) || !defined(BIAS) || !defined(AV) || \
    !defined(BV) || !defined(CV)
#error "gemm_tiled.cl needs TRANSPOSE_A, TRANSPOSE_B, BIAS, AV, BV and CV"
#endif

/* Reads a work-item's part of a tile, from k on: of an operand whose rows run `along` the inner size, or
 * across it. `count`: its rows or columns. */
static inline void read_tile(const bool along, const uint width, global const float *from, const ulong ld,
    const ulong first, const ulong count, const ulong k, const ulong inner, const uint vector, float4 *read)
{
    if (along) {
        UNROLLED(i, ALONG_ROWS(width))
            UNROLLED(v, ALONG_VECTORS(width)) {
                const ulong at = k + ALONG_K(width, v);
                read[i * ALONG_VECTORS(width) + v] = read_four(
                    from + min(first + ALONG_ROW(width, i), count - 1) * ld + at, LEFT(inner, at), vector);
            }
        return;
    }
    const ulong column = min(first + ACROSS_X(width), count);
    UNROLLED(i, READS(width)) {
        const ulong row = k + ACROSS_K(width, i);
        read[i] = read_four(from + row * ld + column, row < inner ? count - column : 0, vector);
    }
}

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
#define READ(k)  read_tile(!TRANSPOSE_A, A_TILE, a, a_ld, first_row, m, k, inner, AV, a_read), READ_B(k)

/* p[0 .. RESULT_WIDTH - 1], of which the first `left` exist. */
static inline result_vector read_bias(global const float *p, const ulong left)
{
    float part[RESULT_WIDTH];
    UNROLLED(i, RESULT_WIDTH)
        part[i] = i < left ? p[i] : 0.0f;
    return JOIN(vload, RESULT_WIDTH)(0, part);
}

/* to = old * to + sum, of which the first `left` exist. old = 0 does not read `to`. */
static inline void write_result(
    const result_vector sum, const float old, global float *to, const ulong left)
{
#if CV == 4
    if (left > 0) {
        global result_vector *all = (global result_vector *)to;
        *all = old == 0.0f ? sum : fma((result_vector)(old), *all, sum);
    }
#else
    float part[RESULT_WIDTH];
    JOIN(vstore, RESULT_WIDTH)(sum, 0, part);
    for (uint i = 0; i < RESULT_WIDTH && i < left; i++)
        to[i] = old == 0.0f ? part[i] : fma(old, to[i], part[i]);
#endif
}

KERNEL_OF(LOCAL) GEMM_TILED(const ulong m, const ulong n, const ulong inner_most, const ulong inner_last,
    const float alpha, const float beta, MAT_IN_RESTRICT(a), const ulong stride_a, B_IN,
    const ulong stride_b, MAT_OUT_RESTRICT(c),
    const ulong stride_c IF(BIAS)(COMMA MAT_IN_RESTRICT(bias)))
{
    DECLARE_TILES
    const uint group = (uint)get_group_id(0), panels = (uint)((n + TILE - 1) / TILE);
    const ulong first_row = (ulong)(group / panels) * A_TILE;
    const ulong first_column = (ulong)(group % panels) * TILE, sample = get_group_id(2);
    const ulong inner = sample + 1 < get_num_groups(2) ? inner_most : inner_last;
    global const float *a = a_buffer + a_offset + sample * stride_a;
#ifdef BITS
    const quantised b = QUANTISED(b, sample * stride_b);
#else
    global const float *b = b_buffer + b_offset + sample * stride_b;
#endif
    SUM_TILES(0, inner, DEPTH, !TRANSPOSE_A, TRANSPOSE_B)
    global float *to = c_buffer + c_offset + sample * stride_c;
    UNROLLED(r, RESULTS) {
        const ulong row = first_row + RESULT_ROW(r);
        UNROLLED(h, RESULT_PARTS) {
            const ulong column = first_column + RESULT_COLUMN(h);
            const ulong left = row < m ? LEFT(n, column) : 0;
            result_vector bias = 0.0f;
#if BIAS == 1
            bias = read_bias(bias_buffer + bias_offset + column, left);
#elif BIAS == 2
            if (left > 0)
                bias = bias_buffer[bias_offset + row];
#endif
            write_result(alpha * get_result(sum, r, h) + bias, beta, to + row * c_ld + column, left);
        }
    }
}
