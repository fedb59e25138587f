/* The part along keys of attention_backward.cl on tensor cores, from d and log_mass of attention_backward_mma.cl. Both round
 * the same operands, q and k: probabilities are exp2(score - log_mass), so a difference of the scores, which grows with
 * them, would be one of the probabilities. Local memory: also 4 * TILE words. */
#include "tokens/attention_softmax_mma.clh"

KERNEL_OF(LOCAL) attention_backward_keys_mma(ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v),
    MAT_IN(dy), MAT_IN(d), MAT_IN(log_mass), MAT_OUT(dk), MAT_OUT(dv))
{
    local uint4 q_tiles[2 * TILE_WORDS4], dy_tiles[2 * TILE_WORDS4];
    local float2 rows_of_tile[2 * TILE]; /* log_mass and d */
    LANES_LOCAL
    WARP_OF(blocks, heads / share);
    if (begin >= key_rows)
        return;
    /* Rows beyond the length repeat its last key, and get sums of 0. */
    const uint some = KEYS_OF(sample), read = max(some, 1u), end = begin < some ? queries : 0;
    const float unit = scale * LOG2_E;
    uint4 own_k[FRAGMENTS], own_v[FRAGMENTS];
    load_fragments(own_k, KEY_ROWS(k, sample, head), mine, read);
    load_fragments(own_v, KEY_ROWS(v, sample, head), mine, read);
    float4 sum_k[OWN_SUMS], sum_v[OWN_SUMS], next[PARTS];
    UNROLLED(n, OWN_SUMS)
        sum_k[n] = sum_v[n] = (float4)(0.0f);
    const uint item = get_local_id(0);
    for (uint h = head * share; h < (head + 1) * share; h++) {
        const head_rows q_rows = HEAD_ROWS(q, sample, h), dy_rows = SLOPE_ROWS(h);
        const dropout z =
            dropout_of(seed, (first_sample + sample) * heads + h, threshold, kept_scale);
        global const float *mass = ROW(log_mass, sample * heads + h);
        global const float *mean = ROW(d, sample * heads + h);
        uint query = FIRST_QUERY(begin), now = 0;
        if (query < end) {
            barrier(CLK_LOCAL_MEM_FENCE); /* the last head's tiles are read */
            read_rows(next, q_rows, query, queries - 1);
            write_rows(q_tiles, next);
            read_rows(next, dy_rows, query, queries - 1);
            write_rows(dy_tiles, next);
            if (item < TILE) {
                const uint at = min(query + item, queries - 1);
                rows_of_tile[item] = (float2)(mass[at], mean[at]);
            }
        }
        for (; query < end; query += TILE) {
            if (STARTS && FIRST_KEY(sample, query) >= begin + OWN_ROWS * WARPS)
                break; /* the whole group: later queries see later keys */
            float4 p[PRODUCTS], ds[PRODUCTS], flat[CAP_TILE(PRODUCTS)];
            float2 next_row = 0.0f;
            const bool more = query + TILE < end;
            const uint then = 1 - now;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (more) {
                read_rows(next, q_rows, query + TILE, queries - 1);
                if (item < TILE) {
                    const uint at = min(query + TILE + item, queries - 1);
                    next_row = (float2)(mass[at], mean[at]);
                }
            }
            const bool sees = CAUSAL ? mine < past + query + TILE : true, needed = of_warp(sees && mine < some);
            WHERE(needed) {
                dot_tile(p, own_k, q_tiles + now * TILE_WORDS4);
                dot_tile(ds, own_v, dy_tiles + now * TILE_WORDS4);
            }
            if (more) {
                write_rows(q_tiles + then * TILE_WORDS4, next);
                if (item < TILE)
                    rows_of_tile[then * TILE + item] = next_row;
                read_rows(next, dy_rows, query + TILE, queries - 1);
            }
            WHERE(needed) {
                score_tile(p, unit, flat, cap, BIAS_ROWS(sample, h), rows, key_rows, row, query, false);
                forget_tile(p, needed);
                drop_tile(z, ds, row, query, false);
                UNROLLED(n, TILE / 8) {
                    const float4 two = *(local const float4 *)(rows_of_tile + now * TILE + 8 * n + lane % 4 * 2);
                    UNROLLED(i, M_TILES) {
                        p[AT_TILE(i, n)] = powers_of_2(
                            fma(p[AT_TILE(i, n)], (float4)(SCORE_UNIT(unit)), -two.xzxz));
                        ds[AT_TILE(i, n)] -= two.ywyw;
                    }
                }
                const uint of_lane = query + lane % 4 * 2;
                const bool hidden = CAUSAL ? past + query < mine + OWN_ROWS - 1 : false;
                if (STARTS || hidden || query + TILE > end)
                    EACH_PRODUCT(p, row, query,
                        const int at = other - of_lane; /* a constant */
                        const bool seen = at < (int)(end - of_lane) && (!CAUSAL || at >= (int)(own_row - past - of_lane)) &&
                            (!STARTS || FIRST_KEY(sample, min(other, queries - 1)) <= own_row);
                        value = seen ? value : 0.0f;)
                UNROLLED(j, PRODUCTS)
                    ds[j] *= p[j];
                uncap_tile(ds, flat);
                drop_tile(z, p, row, query, false);
                add_tile(sum_v, p, 1, dy_tiles + now * TILE_WORDS4, lanes);
                add_tile(sum_k, ds, 1, q_tiles + now * TILE_WORDS4, lanes);
            }
            if (more)
                write_rows(dy_tiles + then * TILE_WORDS4, next);
            now = then;
        }
    }
    float2 by_k[M_TILES], by_v[M_TILES];
    UNROLLED(i, M_TILES) {
        by_k[i] = (float2)(scale), by_v[i] = (float2)(1.0f);
#if LENGTHS
        UNROLLED(n, E / 8) { /* not a factor of 0: a sum may be NaN */
            const bool low = row + 16 * i < some, high = row + 16 * i + 8 < some;
            float4 *of_k = sum_k + AT_TILE(i, n), *of_v = sum_v + AT_TILE(i, n);
            of_k->lo = low ? of_k->lo : (float2)(0.0f);
            of_v->lo = low ? of_v->lo : (float2)(0.0f);
            of_k->hi = high ? of_k->hi : (float2)(0.0f);
            of_v->hi = high ? of_v->hi : (float2)(0.0f);
        }
#endif
    }
    store_rows(HEAD_AT(dv, sample * key_rows, head), dv_ld, row, key_rows, sum_v, by_v);
    store_rows(HEAD_AT(dk, sample * key_rows, head), dk_ld, row, key_rows, sum_k, by_k);
}
