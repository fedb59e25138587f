/* Dense products for GPUs, all samples of a batch in one launch: c_i = alpha * op(a_i) * op(b_i) +
 * beta * c_i for each sample i, with op(a) of m x inner and op(b) of inner x n.
 *
 *                        op(b), DEPTH rows
 *                      +------+------+------+
 *                      |      | tile |      |           DEPTH: the part of the inner size that
 *                      +------+------+------+           both tiles have in local memory
 *     op(a)   +----+   +------+------+------+
 *             |    |   |      |      |      |           8 x 8 work-items; gemm_tile.clh has
 *             |tile|   |      |  c   |      |           the results of each
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
 * Local memory: 2 * DEPTH * (A_TILE + TILE) * 4 bytes. AV, BV, CV 4: rows of that operand begin at multiples
 * of 16 bytes and have a multiple of 4 elements; else 1. */
#include "prelude/gemm_tile.clh"
#include "prelude/quantise.clh"
#if !defined(TRANSPOSE_A) || !defined(TRANSPOSE_B) || !defined(BIAS) || !defined(AV) || \
    !defined(BV) || !defined(CV)
#error "gemm_tiled.cl needs TRANSPOSE_A, TRANSPOSE_B, BIAS, AV, BV and CV"
#endif

/* Reads a work-item's part of a tile `width` wide, from row k of the inner size and row or column `first` on. */
static inline void read_tile(const bool along, const uint width, global const float *from, const ulong ld,
    const ulong first, const ulong count, const ulong k, const ulong inner, const uint vector, float4 *read)
{
    if (along) {
        global const float *row = from + min(first + MINE(width), count - 1) * ld;
        const ulong at = k + ALONG(width);
        read[0] = read_four(row + at, width == LOCAL ? inner - at : inner > at ? inner - at : 0, vector);
        if (READS_OF(width) == 2)
            read[1] = read_four(row + at + 4, inner > at + 4 ? inner - at - 4 : 0, vector);
        return;
    }
    const ulong column = min(first + ACROSS(width), count);
    UNROLLED(i, READS_OF(width)) {
        const ulong row = k + DOWN(width) + 4 * i;
        read[i] = read_four(from + row * ld + column, row < inner ? count - column : 0, vector);
    }
}

#ifdef BITS
/* The same for a quantised operand. */
static inline void read_codes(const bool along, const quantised b, const ulong first,
    const ulong count, const ulong k, const ulong inner, float4 *read)
{
    if (along) {
        const quantised row = quantised_rows(b, min(first + MINE(TILE), count - 1));
        read[0] = dequantise_four(row.codes, row.groups, k, inner - k);
        read[1] = dequantise_four(row.codes, row.groups, k + 4, inner > k + 4 ? inner - k - 4 : 0);
        return;
    }
    const ulong column = first + ACROSS(TILE);
    UNROLLED(i, READS_OF(TILE)) {
        const ulong row = k + DOWN(TILE) + 4 * i;
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
#define WRITE(t)                                                                                   \
    write_part(!TRANSPOSE_A, a_tile + (t)*SIZE_OF(A_TILE), A_TILE, a_read),                        \
        write_part(TRANSPOSE_B, b_tile + (t)*SIZE_OF(TILE), TILE, b_read)

/* to[0 .. 3] = old * to + sum + bias, of which the first `left` exist. old = 0 does not read `to`. */
static inline void write_four(const float4 sum, const float old, const float4 bias,
    global float *to, const ulong left)
{
#if CV == 4
    if (left > 0) {
        global float4 *four = (global float4 *)to;
        *four = old == 0.0f ? sum + bias : fma((float4)(old), *four, sum + bias);
    }
#else
    float part[4];
    vstore4(sum + bias, 0, part);
    for (uint i = 0; i < 4 && i < left; i++)
        to[i] = old == 0.0f ? part[i] : fma(old, to[i], part[i]);
#endif
}

KERNEL_OF(LOCAL) GEMM_TILED(const ulong m, const ulong n, const ulong inner, const float alpha,
    const float beta, MAT_IN_RESTRICT(a), const ulong stride_a, B_IN, const ulong stride_b,
    MAT_OUT_RESTRICT(c), const ulong stride_c IF(BIAS)(COMMA MAT_IN_RESTRICT(bias)))
{
    DECLARE_TILES
    const uint group = (uint)get_group_id(0), panels = (uint)((n + TILE - 1) / TILE);
    const ulong first_row = (ulong)(group / panels) * A_TILE;
    const ulong first_column = (ulong)(group % panels) * TILE;
    const uint y = get_local_id(0) / 8, x = get_local_id(0) % 8;
    global const float *a = a_buffer + a_offset + get_group_id(2) * stride_a;
#ifdef BITS
    const quantised b = QUANTISED(b, get_group_id(2) * stride_b);
#else
    global const float *b = b_buffer + b_offset + get_group_id(2) * stride_b;
#endif
    SUM_TILES(0, inner, DEPTH, y, x)
    global float *to = c_buffer + c_offset + get_group_id(2) * stride_c;
    UNROLLED(r, ROWS) {
        const ulong row = first_row + r / 4 * 32 + 4 * y + r % 4;
        UNROLLED(h, 2) {
            const ulong column = first_column + 32 * h + 4 * x;
            const ulong left = row < m && column < n ? n - column : 0;
            float4 bias = (float4)(0.0f);
#if BIAS == 1
            bias = read_four(bias_buffer + bias_offset + column, left, 1);
#elif BIAS == 2
            if (left > 0)
                bias = (float4)(bias_buffer[bias_offset + row]);
#endif
            write_four(alpha * sum[r][h], beta, bias, to + row * c_ld + column, left);
        }
    }
}
