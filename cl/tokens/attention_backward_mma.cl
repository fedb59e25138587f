/* attention_backward.cl on tensor cores: its formulas, with operands, probabilities and ds rounded to TF32 or bf16.
 * attention_mma.clh has the tiles. The first kernel goes along the keys twice: for log_mass and d, then for dq. Here
 * log_mass is log2 of the mass. Both kernels round the same operands, k and scale * LOG2_E * q: probabilities are
 * exp2(score - log_mass), so a difference of the scores, which grows with them, would be one of the probabilities. So
 * sum_k has the factor LOG2_E, too. */
#include "tokens/attention_softmax_mma.clh"

KERNEL_OF(LOCAL) attention_backward_queries_mma(ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v),
    MAT_IN(dy), MAT_OUT(dq), MAT_OUT(d), MAT_OUT(log_mass))
{
    local uint4 k_tile[TILE_WORDS4], v_tile[TILE_WORDS4];
    LANES_LOCAL
    QUERIES_OF_WARP;
    uint4 own_q[FRAGMENTS], own_dy[FRAGMENTS];
    load_fragments(own_q, HEAD_ROWS(q, sample, head), mine, queries, scale * LOG2_E);
    load_fragments(own_dy, SLOPE_ROWS(head), mine, queries, 1.0f);
    softmax_rows p = softmax_rows_start();
    float2 slope = 0.0f, mass = 0.0f, log_of_mass = 0.0f;
    float4 sum[E / 8];
    UNROLLED(n, E / 8)
        sum[n] = (float4)(0.0f);
#pragma nounroll
    for (uint turn = 0; turn < 2; turn++) {
        for (uint key = FIRST_KEY(sample, begin); key < end; key += TILE) {
            float4 s[TILE / 8], dp[TILE / 8], flat[CAP_TILE(TILE / 8)];
            load_rows(k_tile, keys, key, min((uint)TILE, end - key), 1.0f);
            load_rows(v_tile, values, key, min((uint)TILE, end - key), 1.0f);
            barrier(CLK_LOCAL_MEM_FENCE);
            dot_tile(s, own_q, k_tile);
            cap_tile(s, flat, cap);
            bias_tile(s, BIAS_ROWS(sample, head), rows, key_rows, row, key, true);
            dot_tile(dp, own_dy, v_tile);
            drop_tile(z, dp, row, key, true);
            if (turn == 0) {
                slope *= softmax_rows_add(&p, s, past + row, from, key, some, lanes);
                UNROLLED(j, TILE / 8)
                    slope += s[j].even * dp[j].even + s[j].odd * dp[j].odd;
            } else {
                hide_keys(s, past + row, from, key, some);
                UNROLLED(j, TILE / 8)
                    s[j] = powers_of_2(s[j] - log_of_mass.xxyy) * (dp[j] - slope.xxyy);
                uncap_tile(s, flat);
                add_tile(sum, s, k_tile, lanes);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (turn == 0) {
            mass = softmax_rows_mass(&p, end, lanes);
            slope = (float2)(quad_join(lanes, slope.x, false), quad_join(lanes, slope.y, false)) / mass;
            log_of_mass = p.most + log2(mass);
        }
    }
    store_rows(HEAD_AT(dq, sample * rows, head), dq_ld, row, queries, sum, (float2)(scale));
    if (lane % 4 == 0) {
        if (row < queries)
            AT(d, sample * heads + head, row) = slope.x, AT(log_mass, sample * heads + head, row) = log_of_mass.x;
        if (row + 8 < queries)
            AT(d, sample * heads + head, row + 8) = slope.y,
            AT(log_mass, sample * heads + head, row + 8) = log_of_mass.y;
    }
}

KERNEL_OF(LOCAL) attention_backward_keys_mma(ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v),
    MAT_IN(dy), MAT_IN(d), MAT_IN(log_mass), MAT_OUT(dk), MAT_OUT(dv))
{
    local uint4 q_tile[TILE_WORDS4], dy_tile[TILE_WORDS4];
    LANES_LOCAL
    WARP_OF(blocks, heads / share);
    if (begin >= key_rows)
        return;
    /* Rows beyond the length repeat its last key, and get sums of 0. */
    const uint some = KEYS_OF(sample), read = max(some, 1u), end = begin < some ? queries : 0;
    uint4 own_k[FRAGMENTS], own_v[FRAGMENTS];
    load_fragments(own_k, KEY_ROWS(k, sample, head), mine, read, 1.0f);
    load_fragments(own_v, KEY_ROWS(v, sample, head), mine, read, 1.0f);
    float4 sum_k[E / 8], sum_v[E / 8];
    UNROLLED(n, E / 8)
        sum_k[n] = sum_v[n] = (float4)(0.0f);
    for (uint h = head * share; h < (head + 1) * share; h++) {
        const head_rows q_rows = HEAD_ROWS(q, sample, h), dy_rows = SLOPE_ROWS(h);
        const dropout z =
            dropout_of(seed, (first_sample + sample) * heads + h, threshold, kept_scale);
        global const float *mass = ROW(log_mass, sample * heads + h);
        global const float *mean = ROW(d, sample * heads + h);
        for (uint query = FIRST_QUERY(begin); query < end; query += TILE) {
            float4 p[TILE / 8], ds[TILE / 8], flat[CAP_TILE(TILE / 8)];
            if (STARTS && FIRST_KEY(sample, query) >= begin + 16 * WARPS)
                break; /* the whole group */
            load_rows(q_tile, q_rows, query, min((uint)TILE, end - query), scale * LOG2_E);
            load_rows(dy_tile, dy_rows, query, min((uint)TILE, end - query), 1.0f);
            barrier(CLK_LOCAL_MEM_FENCE);
            dot_tile(p, own_k, q_tile);
            cap_tile(p, flat, cap);
            bias_tile(p, BIAS_ROWS(sample, h), rows, key_rows, row, query, false);
            dot_tile(ds, own_v, dy_tile);
            drop_tile(z, ds, row, query, false);
            UNROLLED(j, TILE / 8) {
                const uint first = query + 8 * j + lane % 4 * 2;
                const uint2 column = min((uint2)(first, first + 1), (uint2)(end - 1));
                const float2 m = (float2)(mass[column.x], mass[column.y]);
                const float2 slope = (float2)(mean[column.x], mean[column.y]);
                p[j] = powers_of_2(p[j] - m.xyxy);
                ds[j] -= slope.xyxy;
            }
            EACH_PRODUCT(p, row, query, value = other < end && (!CAUSAL || past + other >= own_row) &&
                    (!STARTS || FIRST_KEY(sample, other) <= own_row) ? value : 0.0f;)
            UNROLLED(j, TILE / 8)
                ds[j] *= p[j];
            uncap_tile(ds, flat);
            drop_tile(z, p, row, query, false);
            add_tile(sum_v, p, dy_tile, lanes);
            add_tile(sum_k, ds, q_tile, lanes);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
#if LENGTHS
    UNROLLED(n, E / 8) { /* not a factor of 0: a sum may be NaN */
        sum_k[n].lo = row < some ? sum_k[n].lo : (float2)(0.0f);
        sum_v[n].lo = row < some ? sum_v[n].lo : (float2)(0.0f);
        sum_k[n].hi = row + 8 < some ? sum_k[n].hi : (float2)(0.0f);
        sum_v[n].hi = row + 8 < some ? sum_v[n].hi : (float2)(0.0f);
    }
#endif
    store_rows(HEAD_AT(dv, sample * key_rows, head), dv_ld, row, key_rows, sum_v, (float2)(1.0f));
    store_rows(HEAD_AT(dk, sample * key_rows, head), dk_ld, row, key_rows, sum_k, (float2)(LN_2));
}
