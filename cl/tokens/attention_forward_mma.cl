/* attention_forward.cl on tensor cores: operands and probabilities are rounded to TF32 or bf16, sums are fp32.
 * attention_mma.clh has the tiles. Group (sample * heads + head) * blocks + block takes 16 queries a warp. */
#include "tokens/attention_softmax_mma.clh"

KERNEL_OF(LOCAL) attention_forward_mma(
    ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v), MAT_OUT(y))
{
    local uint4 k_tile[TILE_WORDS4], v_tile[TILE_WORDS4];
    LANES_LOCAL
    QUERIES_OF_WARP;
    uint4 own[FRAGMENTS];
    load_fragments(own, HEAD_ROWS(q, sample, head), mine, queries, scale * LOG2_E);
    float4 sum[E / 8];
    softmax_rows p = softmax_rows_start();
    UNROLLED(n, E / 8)
        sum[n] = (float4)(0.0f);
    for (uint key = FIRST_KEY(sample, begin); key < end; key += TILE) {
        float4 s[TILE / 8], flat[CAP_TILE(TILE / 8)];
        load_rows(k_tile, keys, key, min((uint)TILE, end - key), 1.0f);
        load_rows(v_tile, values, key, min((uint)TILE, end - key), 1.0f);
        barrier(CLK_LOCAL_MEM_FENCE);
        dot_tile(s, own, k_tile);
        cap_tile(s, flat, cap);
        bias_tile(s, BIAS_ROWS(sample, head), rows, key_rows, row, key, true);
        const float2 factor = softmax_rows_add(&p, s, past + row, from, key, some, lanes);
        UNROLLED(n, E / 8)
            sum[n] *= factor.xxyy;
        drop_tile(z, s, row, key, true);
        add_tile(sum, s, v_tile, lanes);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float2 mass = softmax_rows_mass(&p, end, lanes);
    store_rows(HEAD_AT(y, sample * queries, head), y_ld, row, queries, sum, 1.0f / mass);
}
