/* Attention: for each sample, head and query i
 *
 *     y[i] = sum over keys j of p[i][j] * v[j],  p[i] = softmax over j of scale * q[i] . k[j] (+ bias; CAP: capped before)
 *
 * q: (batch * rows) x (heads * E), of which the first `queries` rows of each sample are read; y: (batch * queries)
 * x (heads * E); k, v: (batch * key_rows) x (heads / share * E): `share` heads of q read the same head of k and v. Group (sample * heads + head) * blocks + block takes LOCAL * LANES queries, see
 * attention.clh. Keys beyond a sample's length are not read, and with STARTS those before all queries' starts. The softmax runs along the tiles of keys: the sums so far are rescaled where a larger score
 * comes. With DROP a probability is 0, or p * kept_scale. Local memory: E * LANES * LOCAL floats;
 * with BF16 half as much, and room for a tile (attention_rows.clh). */
#include "tokens/attention_rows.clh"
#include "tokens/attention_cap.clh"
#include "tokens/attention_drop.clh"

KERNEL_OF(LOCAL) attention_forward(ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v), MAT_OUT(y))
{
    OWN_LOCAL(own);
    ROOM_LOCAL(room, TILE);
    TERMS vec s[TILE][QV];
    GROUP_OF(blocks, heads);
    if (first >= queries)
        return;
    const head_rows keys = KEY_ROWS(k, sample, head / share);
    const head_rows values = KEY_ROWS(v, sample, head / share);
    const uint some = KEYS_OF(sample), end = KEYS_SEEN(first + LANES, some);
    ivec from[QV];
    start_lanes(from, STARTS_OF(sample), first, queries);
    load_own(own, HEAD_ROWS(q, sample, head), first, queries);
    const dropout z = dropout_of(seed, (first_sample + sample) * heads + head, threshold, 1.0f);
    softmax p = softmax_start();
    vec sum[E][QV], factor[QV];
    FOR_STEPS(e, E, 1)
        UNROLLED(i, QV)
            sum[e][i] = 0;
    for (uint key = FIRST_KEY(sample, first); key < end; key += TILE) {
        const uint count = min((uint)TILE, end - key);
        dot_rows(s, own, rows_of(room, keys, key, count), keys.ld, scale, count);
        cap_scores(s, 0, cap, count);
        bias_keys(s, BIAS_ROWS(sample, head), first, rows, key, count);
        hide_before(s, from, key, count);
        softmax_add(&p, s, factor, past + first, key, count);
        drop_keys(z, s, first, key, count);
        add_rows(sum, factor, s, pairs_of(room, values, key, count), values.ld, count);
    }
    softmax_end(&p, end);
    UNROLLED(i, QV)
        factor[i] = kept_scale / p.mass[i];
    store_lanes(HEAD_AT(y, sample * queries, head), y_ld, first, queries, sum, factor, (local float *)own);
}
