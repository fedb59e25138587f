/* The backward pass of attention, y[i] = sum_j p[i][j] v[j] with p = softmax(scale * q k^T): p is made again
 * from q and k, so neither p nor y is kept. With dp[i][j] = dy[i] . v[j] and ds = p * (dp - d[i]):
 *
 *     attention_backward_queries   d[i]   = sum_j p[i][j] dp[i][j],  log_mass[i] = log sum_j exp(score[i][j])
 *                                  dq[i]  = scale * sum_j ds[i][j] k[j]
 *     attention_backward_keys      dv[j]  = sum_i p[i][j] dy[i]
 *                                  dk[j]  = scale * sum_i ds[i][j] q[i],  over the queries of all heads that
 *                                           share k and v
 *
 * With DROP, z[i][j] is 0 or kept_scale: dp is z * (dy . v), and dv has p * z in place of p. With CAP ds is also
 * multiplied by the slope of the cap.
 * The first goes along the keys once, with a running softmax and a running d: where that changes, the sum of
 * p (dp - d) k so far changes by a multiple of that of p k. A
 * query's d and log_mass are element [sample * heads + head][i] of their matrices. Sizes as in
 * attention_forward.cl; dq is shaped as q, dk and dv as k, 0 beyond a sample's length. The groups of the second take LOCAL * LANES keys of
 * the heads of k. Local memory: 2 * E * LANES * LOCAL floats;
 * with BF16 half as much, and room for a tile. */
#include "tokens/attention_rows.clh"
#include "tokens/attention_cap.clh"
#include "tokens/attention_drop.clh"

KERNEL_OF(LOCAL) attention_backward_queries(ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v), MAT_IN(dy), MAT_OUT(dq),
    MAT_OUT(d), MAT_OUT(log_mass))
{
    OWN_LOCAL(own_q);
    OWN_LOCAL(own_dy);
    ROOM_LOCAL(room, TILE);
    TERMS vec s[TILE][QV], dp[TILE][QV];
    CAP_SLOPES(flat);
    GROUP_OF(blocks, heads);
    if (first >= queries)
        return;
    const head_rows keys = KEY_ROWS(k, sample, head / share);
    const head_rows values = KEY_ROWS(v, sample, head / share);
    const uint some = KEYS_OF(sample), end = KEYS_SEEN(first + LANES, some);
    ivec from[QV];
    start_lanes(from, STARTS_OF(sample), first, queries);
    load_own(own_q, HEAD_ROWS(q, sample, head), first, queries);
    load_own(own_dy, SLOPE_ROWS(head), first, queries);
    const dropout z =
        dropout_of(seed, (first_sample + sample) * heads + head, threshold, kept_scale);
    softmax p = softmax_start();
    vec plain[E][QV], weighted[E][QV], factor[QV], slope[QV], mean[QV];
    UNROLLED(i, QV)
        slope[i] = mean[i] = 0;
    FOR_STEPS(e, E, 1)
        UNROLLED(i, QV) {
            plain[e][i] = 0;
            weighted[e][i] = 0;
        }
    for (uint key = FIRST_KEY(sample, first); key < end; key += TILE) {
        const uint count = min((uint)TILE, end - key);
        dot_rows(s, own_q, rows_of(room, keys, key, count), keys.ld, scale, count);
        cap_scores(s, flat, cap, count);
        bias_keys(s, BIAS_ROWS(sample, head), first, rows, key, count);
        hide_before(s, from, key, count);
        softmax_add(&p, s, factor, past + first, key, count);
        dot_rows(dp, own_dy, rows_of(room, values, key, count), values.ld, 1.0f, count);
        drop_keys(z, dp, first, key, count);
        UNROLLED(i, QV)
            slope[i] *= factor[i];
        FOR_TILE(j, count) {
            UNROLLED(i, QV)
                slope[i] = fma(s[j][i], dp[j][i], slope[i]);
        }
        UNROLLED(i, QV) {
            const vec none = 0, to = p.mass[i] > none ? slope[i] / p.mass[i] : none, by = mean[i] - to;
            mean[i] = to;
            FOR_STEPS(e, E, 1)
                weighted[e][i] = fma(by, plain[e][i], weighted[e][i]);
        }
        FOR_TILE(j, count) {
            UNROLLED(i, QV)
                dp[j][i] = s[j][i] * (dp[j][i] - mean[i]);
        }
        uncap(s, flat, count);
        uncap(dp, flat, count);
        others pairs = pairs_of(room, keys, key, count);
        add_rows(plain, factor, s, pairs, keys.ld, count);
        add_rows(weighted, factor, dp, pairs, keys.ld, count);
    }
    softmax_end(&p, end);
    UNROLLED(i, QV) {
        factor[i] = scale / p.mass[i];
        p.mass[i] = p.most[i] + log(p.mass[i]);
    }
    store_lanes(HEAD_AT(dq, sample * rows, head), dq_ld, first, queries, weighted, factor, (local float *)own_q);
    for (uint i = 0; i < LANES && first + i < queries; i++) {
        AT(d, sample * heads + head, first + i) = ((float *)&mean[i / VW])[i % VW];
        AT(log_mass, sample * heads + head, first + i) = ((float *)&p.mass[i / VW])[i % VW];
    }
}

KERNEL_OF(LOCAL) attention_backward_keys(ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v), MAT_IN(dy), MAT_IN(d),
    MAT_IN(log_mass), MAT_OUT(dk), MAT_OUT(dv))
{
    OWN_LOCAL(own_k);
    OWN_LOCAL(own_v);
    ROOM_LOCAL(room, TILE);
    TERMS vec p[TILE][QV], ds[TILE][QV];
    CAP_SLOPES(flat);
    GROUP_OF(blocks, heads / share);
    if (first >= key_rows)
        return;
    /* Lanes beyond the length repeat its last key, and get sums of 0. */
    const uint some = KEYS_OF(sample), read = max(some, 1u), end = first < some ? queries : 0;
    load_own(own_k, KEY_ROWS(k, sample, head), first, read);
    load_own(own_v, KEY_ROWS(v, sample, head), first, read);
    vec sum_k[E][QV], sum_v[E][QV], one[QV], factor[QV];
    UNROLLED(i, QV) {
        one[i] = 1;
        factor[i] = scale;
    }
    FOR_STEPS(e, E, 1)
        UNROLLED(i, QV) {
            sum_k[e][i] = 0;
            sum_v[e][i] = 0;
        }
    for (uint h = head * share; h < (head + 1) * share; h++) {
        const head_rows q_rows = HEAD_ROWS(q, sample, h), dy_rows = SLOPE_ROWS(h);
        const dropout z =
            dropout_of(seed, (first_sample + sample) * heads + h, threshold, kept_scale);
        global const float *mass = ROW(log_mass, sample * heads + h);
        global const float *mean = ROW(d, sample * heads + h);
        for (uint query = FIRST_QUERY(first); query < end; query += TILE) {
            const uint count = min((uint)TILE, end - query);
            if (STARTS && FIRST_KEY(sample, query) >= first + LANES)
                break;
            dot_rows(p, own_k, rows_of(room, q_rows, query, count), q_rows.ld, scale, count);
            cap_scores(p, flat, cap, count);
            bias_queries(p, BIAS_ROWS(sample, h), first, key_rows, query, count);
            FOR_TILE(i, count) {
                UNROLLED(c, QV) {
                    p[i][c] = exp_sum(p[i][c] - mass[query + i], (vec)(0.0f));
                    if (past + query < first + LANES)
                        p[i][c] =
                            lane_rows(first, c) > (ivec)((int)(past + query + i)) ? (vec)(0.0f) : p[i][c];
                    if (STARTS)
                        p[i][c] = lane_rows(first, c) < (ivec)((int)FIRST_KEY(sample, query + i)) ? (vec)(0.0f) : p[i][c];
                }
            }
            dot_rows(ds, own_v, rows_of(room, dy_rows, query, count), dy_rows.ld, 1.0f, count);
            drop_queries(z, ds, first, query, count);
            FOR_TILE(i, count) {
                UNROLLED(c, QV)
                    ds[i][c] = p[i][c] * (ds[i][c] - mean[query + i]);
            }
            uncap(ds, flat, count);
            drop_queries(z, p, first, query, count);
            add_rows(sum_v, one, p, pairs_of(room, dy_rows, query, count), dy_rows.ld, count);
            add_rows(sum_k, one, ds, pairs_of(room, q_rows, query, count), q_rows.ld, count);
        }
    }
    const vec none = 0; /* not a factor of 0: a sum may be NaN */
    FOR_STEPS(e, E, 1)
        UNROLLED(i, QV) {
            const ivec counts = lane_rows(first, i) < (ivec)((int)some);
            sum_k[e][i] = counts ? sum_k[e][i] : none;
            sum_v[e][i] = counts ? sum_v[e][i] : none;
        }
    store_lanes(HEAD_AT(dv, sample * key_rows, head), dv_ld, first, key_rows, sum_v, one, (local float *)own_v);
    store_lanes(HEAD_AT(dk, sample * key_rows, head), dk_ld, first, key_rows, sum_k, factor, (local float *)own_k);
}
