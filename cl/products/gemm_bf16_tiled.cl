/* Dense products on tensor cores, of operands that lie in memory as bf16: c_i = alpha * op(a_i) * op(b_i) + beta * c_i for each
 * sample i, as in gemm_tiled.cl, whose groups, edges and BIAS these are. bf16_tile.clh has the tiles. The inner sum
 * runs in order, in fp32. Rows of a and b begin at multiples of 16 bytes. The inner size is below 2^30. Local memory: 48 KiB, or 36 with M_TILES 2. */
#include "tiles/bf16_tile.clh"
#include "products/gemm_result.clh"
#if !defined(TRANSPOSE_A) || !defined(TRANSPOSE_B) || !defined(BIAS) || !defined(CV)
#error "gemm_bf16_tiled.cl needs TRANSPOSE_A, TRANSPOSE_B, BIAS and CV"
#endif
#define MAT_OF_BF16(x)                                                                             \
    global const ushort *restrict x##_buffer, const ulong x##_offset, const ulong x##_ld
#define COPY_TILES(whole, stage)                                                                   \
    copy_part(!TRANSPOSE_A, whole, A_TILE, &in_flight, &a, tiles + (stage)*STAGE);                 \
    copy_part(TRANSPOSE_B, whole, TILE, &in_flight, &b, tiles + (stage)*STAGE + B_AT)

KERNEL_OF(LOCAL) gemm_bf16_tiled(const ulong m, const ulong n, const ulong inner_most, const ulong inner_last,
    const float alpha, const float beta, MAT_OF_BF16(a), const ulong stride_a, MAT_OF_BF16(b),
    const ulong stride_b, MAT_RESULT_RESTRICT(c), const ulong stride_c BIAS_IN)
{
    DECLARE_STAGES
    const uint group = (uint)get_group_id(0), panels = (uint)((n + TILE - 1) / TILE);
    const ulong first_row = (ulong)(group / panels) * A_TILE;
    const ulong first_column = (ulong)(group % panels) * TILE, sample = get_group_id(2);
    const uint inner = (uint)(sample + 1 < get_num_groups(2) ? inner_most : inner_last);
    part a = begin_part(!TRANSPOSE_A, A_TILE, a_buffer + a_offset + sample * stride_a, a_ld, first_row, m, inner);
    part b = begin_part(TRANSPOSE_B, TILE, b_buffer + b_offset + sample * stride_b, b_ld, first_column, n, inner);
    SUM_STAGES(inner, !TRANSPOSE_A, TRANSPOSE_B)
    write_results(sum, alpha, beta, BIAS_HERE, c_buffer + c_offset + sample * stride_c, c_ld, first_row,
        first_column, m, n);
}
