/* The part along queries of attention_backward.cl on tensor cores: operands, probabilities and ds are rounded to TF32 or bf16.
 * attention_mma.clh has the tiles. log_mass is log2 of the mass.
 *
 * One pass along the keys, though d = sum_j p[j] dp[j] is known only behind it: for any `mean`, with terms t[j] of mass m,
 *
 *     dq = scale / m * (A - (d - mean) B),  A = sum_j t[j] (dp[j] - mean) k[j],  B = sum_j t[j] k[j]
 *     d - mean = slope / m,                 slope = sum_j t[j] (dp[j] - mean)
 *
 * A and B lose to cancellation what |d - mean| exceeds |dp[j] - d| by. So whenever the terms of a row grow, `mean` becomes
 * its d so far: it is close to d of rows in which few keys have most of the mass, too. */
#include "tokens/attention_softmax_mma.clh"

KERNEL_OF(LOCAL) attention_backward_queries_mma(ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v),
    MAT_IN(dy), MAT_OUT(dq), MAT_OUT(d), MAT_OUT(log_mass))
{
    local uint4 k_tiles[2 * TILE_WORDS4], v_tiles[2 * TILE_WORDS4];
    LANES_LOCAL
    QUERIES_OF_WARP;
    const float unit = scale * LOG2_E;
    uint4 own_q[FRAGMENTS], own_dy[FRAGMENTS];
    float4 sums[2 * OWN_SUMS], next[PARTS]; /* A, B */
    float2 slope[M_TILES], mean[M_TILES];
    softmax_rows p = softmax_rows_start();
    UNROLLED(n, 2 * OWN_SUMS)
        sums[n] = (float4)(0.0f);
    UNROLLED(i, M_TILES)
        slope[i] = mean[i] = (float2)(0.0f);
    load_fragments(own_q, HEAD_ROWS(q, sample, head), mine, queries);
    load_fragments(own_dy, SLOPE_ROWS(head), mine, queries);
    read_rows(next, keys, first, last);
    write_rows(k_tiles, next);
    read_rows(next, values, first, last);
    write_rows(v_tiles, next);
    uint now = 0;
    for (uint key = first; key < end; key += TILE) {
        float4 terms[2 * PRODUCTS], flat[CAP_TILE(PRODUCTS)]; /* of A and B: dp and scores at first */
        float4 *dp = terms, *s = terms + PRODUCTS;
        float2 factor[M_TILES], mass[M_TILES];
        const bool more = key + TILE < end;
        const uint then = TILE_WORDS4 - now;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (more)
            read_rows(next, keys, key + TILE, last);
        const bool seen = CAUSAL ? key < past + mine + OWN_ROWS : true, needed = of_warp(seen && mine < queries);
        WHERE(needed) {
            dot_tile(dp, own_dy, v_tiles + now);
            drop_tile(z, dp, row, key, true);
            bool grows = false;
            do {
                dot_tile(s, own_q, k_tiles + now);
                score_tile(s, unit, flat, cap, BIAS_ROWS(sample, head), rows, key_rows, row, key, true);
                forget_tile(s, needed);
                hide_keys(s, past + mine, past + row, from, key, some);
                WHERE(grows)
                    softmax_rows_grow(&p, s, SCORE_UNIT(unit), grows, factor, lanes);
                const bool again = softmax_rows_terms(&p, s, SCORE_UNIT(unit), mass, lanes) && !grows;
                WHERE(grows)
                    UNROLLED(i, M_TILES) {
                        const float2 old = factor[i] * p.mass[i], all = quad_sum(lanes, old + mass[i]);
                        float2 part = factor[i] * slope[i] + mean[i] * old;
                        UNROLLED(n, TILE / 8) {
                            const float4 product = s[AT_TILE(i, n)] * dp[AT_TILE(i, n)];
                            part += product.even + product.odd;
                        }
                        float2 to = quad_sum(lanes, part) * (float2)(reciprocal(all.x), reciprocal(all.y));
                        if (STARTS) /* rows that see none of the keys so far */
                            to = (float2)(all.x > 0 ? to.x : 0.0f, all.y > 0 ? to.y : 0.0f);
                        if (!MMA_PTX && !grows)
                            continue;
                        const float2 by = mean[i] - to, again = factor[i] * by;
                        slope[i] = factor[i] * slope[i] + by * old;
                        p.mass[i] = old;
                        mean[i] = to;
                        UNROLLED(n, E / 8) {
                            float4 *a = sums + AT_TILE(i, n), *b = a + OWN_SUMS;
                            *a = fma(factor[i].xxyy, *a, again.xxyy * *b);
                            *b *= factor[i].xxyy;
                        }
                    }
                grows = again;
            } while (grows);
            UNROLLED(n, TILE / 8)
                UNROLLED(i, M_TILES) {
                    const float4 t = s[AT_TILE(i, n)], part = t * (dp[AT_TILE(i, n)] - mean[i].xxyy);
                    slope[i] += part.even + part.odd;
                    dp[AT_TILE(i, n)] = part;
                }
            uncap_tile(dp, flat);
            uncap_tile(s, flat);
            UNROLLED(i, M_TILES)
                p.mass[i] += mass[i];
        }
        if (more) {
            write_rows(k_tiles + then, next);
            read_rows(next, values, key + TILE, last);
        }
        WHERE(needed)
            add_tile(sums, terms, 2, k_tiles + now, lanes);
        if (more)
            write_rows(v_tiles + then, next);
        now = then;
    }
    UNROLLED(i, M_TILES) {
        const float2 mass = softmax_rows_mass(p.mass[i], end, lanes), most = p.most[i];
        const float2 by = quad_sum(lanes, slope[i]) / mass, of = mean[i] + by, log_of = most + log2(mass);
        UNROLLED(n, E / 8)
            sums[AT_TILE(i, n)] -= by.xxyy * sums[OWN_SUMS + AT_TILE(i, n)];
        p.mass[i] = scale / mass;
        const uint low = row + 16 * i, high = low + 8;
        if (lane % 4 == 0 && low < queries)
            AT(d, sample * heads + head, low) = of.x, AT(log_mass, sample * heads + head, low) = log_of.x;
        if (lane % 4 == 0 && high < queries)
            AT(d, sample * heads + head, high) = of.y, AT(log_mass, sample * heads + head, high) = log_of.y;
    }
    store_rows(HEAD_AT(dq, sample * rows, head), dq_ld, row, queries, sums, p.mass);
}
