/* attention_forward.cl on tensor cores: operands and probabilities are rounded to TF32 or bf16, sums are fp32.
 * attention_mma.clh has the tiles. Group (sample * heads + head) * blocks + block takes OWN_ROWS queries a warp. */
#include "tokens/attention_softmax_mma.clh"

KERNEL_OF(LOCAL) attention_forward_mma(
    ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v), MAT_OUT(y))
{
    local uint4 k_tiles[2 * TILE_WORDS4], v_tiles[2 * TILE_WORDS4];
    LANES_LOCAL
    QUERIES_OF_WARP;
    const float unit = scale * LOG2_E;
    uint4 own[FRAGMENTS];
    float4 sum[OWN_SUMS], next[PARTS];
    softmax_rows p = softmax_rows_start();
    UNROLLED(n, OWN_SUMS)
        sum[n] = (float4)(0.0f);
    load_fragments(own, HEAD_ROWS(q, sample, head), mine, queries);
    read_rows(next, keys, first, last);
    write_rows(k_tiles, next);
    read_rows(next, values, first, last);
    write_rows(v_tiles, next);
    uint now = 0;
    for (uint key = first; key < end; key += TILE) {
        float4 s[PRODUCTS], flat[CAP_TILE(PRODUCTS)];
        float2 factor[M_TILES], mass[M_TILES];
        const bool more = key + TILE < end;
        const uint then = TILE_WORDS4 - now;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (more)
            read_rows(next, keys, key + TILE, last);
        const bool seen = CAUSAL ? key < past + mine + OWN_ROWS : true, needed = of_warp(seen && mine < queries);
        WHERE(needed) {
            bool grows = false;
            do {
                dot_tile(s, own, k_tiles + now);
                score_tile(s, unit, flat, cap, BIAS_ROWS(sample, head), rows, key_rows, row, key, true);
                forget_tile(s, needed);
                hide_keys(s, past + mine, past + row, from, key, some);
                WHERE(grows)
                    softmax_rows_grow(&p, s, SCORE_UNIT(unit), grows, factor, lanes);
                if (grows) {
                    UNROLLED(i, M_TILES) {
                        p.mass[i] *= factor[i];
                        UNROLLED(n, E / 8)
                            sum[AT_TILE(i, n)] *= factor[i].xxyy;
                    }
                }
                grows = softmax_rows_terms(&p, s, SCORE_UNIT(unit), mass, lanes) && !grows;
            } while (grows);
            UNROLLED(i, M_TILES)
                p.mass[i] += mass[i];
            drop_tile(z, s, row, key, true);
        }
        if (more) {
            write_rows(k_tiles + then, next);
            read_rows(next, values, key + TILE, last);
        }
        WHERE(needed)
            add_tile(sum, s, 1, v_tiles + now, lanes);
        if (more)
            write_rows(v_tiles + then, next);
        now = then;
    }
    UNROLLED(i, M_TILES)
        p.mass[i] = 1.0f / softmax_rows_mass(p.mass[i], end, lanes);
    store_rows(HEAD_AT(y, sample * queries, head), y_ld, row, queries, sum, p.mass);
}
