/* The gradient of what is added to the scores of attention, from p and dp as in attention_backward.cl:
 *
 *     partial[slice][b][head][j][i] = sum over samples n of the slice of p[i][j] * (dp[i][j] - d[i])
 *
 * with b = (first_sample + n) % biases. The samples of b are dealt out to the slices in turn. Each is gone through
 * twice, for the softmax and d, and for the terms, unless its keys are one tile. Group ((slice * biases + b) * heads
 * + head) * blocks + block takes LOCAL * LANES queries. partial: (slices * biases * heads * key_rows) x (blocks * LOCAL *
 * LANES); columns beyond the queries hold anything. Local memory: 2 * E * LANES * LOCAL floats;
 * with BF16 half as much, and room for a tile. */
#include "tokens/attention_rows.clh"
#include "tokens/attention_cap.clh"
#include "tokens/attention_drop.clh"

/* The scores of the keys from `key` on become terms of a softmax that has gone along all keys. `last`: the last one that
 * the first lane sees. */
static inline void softmax_again(const softmax *p, TERMS vec (*s)[QV], const uint last,
    const uint key, const uint count)
{
    const vec zero = 0;
    const bool hides = key + count > last + 1;
    FOR_TILE(j, count) {
        UNROLLED(v, QV) {
            s[j][v] = exp_sum(s[j][v] - p->most[v], zero);
            if (hides)
                s[j][v] = lane_rows(last, v) < (ivec)((int)(key + j)) ? zero : s[j][v];
        }
    }
}

KERNEL_OF(LOCAL) attention_backward_bias(ATTENTION_SIZES, const ulong batch, const ulong slices, MAT_IN(q), MAT_IN(k),
    MAT_IN(v), MAT_IN(dy), MAT_OUT(partial))
{
    OWN_LOCAL(own_q);
    OWN_LOCAL(own_dy);
    ROOM_LOCAL(room, TILE);
    TERMS vec s[TILE][QV], dp[TILE][QV];
    const ulong block = get_group_id(0) % blocks, list = get_group_id(0) / blocks / heads;
    const uint head = (uint)(get_group_id(0) / blocks % heads);
    const uint first = (uint)((block * LOCAL + get_local_id(0)) * LANES);
    if (first >= queries)
        return;
    global float *sums = ROW(partial, (list * heads + head) * key_rows) + first;
    for (uint j = 0; j < key_rows; j++)
        UNROLLED(i, QV)
            STORE((vec)(0.0f), sums + j * partial_ld + i * VW);
    ulong sample = (list % biases + biases - first_sample % biases) % biases + list / biases * biases;
    for (; sample < batch; sample += slices * biases) {
        const head_rows keys = KEY_ROWS(k, sample, head / share);
        const head_rows values = KEY_ROWS(v, sample, head / share);
        const uint some = KEYS_OF(sample), end = KEYS_SEEN(first + LANES, some);
        const dropout z =
            dropout_of(seed, (first_sample + sample) * heads + head, threshold, kept_scale);
        softmax p = softmax_start();
        vec factor[QV], slope[QV];
        UNROLLED(i, QV)
            slope[i] = 0;
        load_own(own_q, HEAD_ROWS(q, sample, head), first, queries);
        load_own(own_dy, SLOPE_ROWS(head), first, queries);
        for (uint turn = 0; turn < 2; turn++) {
            for (uint key = 0; key < end; key += TILE) {
                const uint count = min((uint)TILE, end - key);
                if (turn == 0 || end > TILE) {
                    dot_rows(s, own_q, rows_of(room, keys, key, count), keys.ld, scale, count);
                    cap_scores(s, 0, cap, count);
                    bias_keys(s, BIAS_ROWS(sample, head), first, rows, key, count);
                    dot_rows(dp, own_dy, rows_of(room, values, key, count), values.ld, 1.0f, count);
                    drop_keys(z, dp, first, key, count);
                }
                if (turn == 0) {
                    softmax_add(&p, s, factor, past + first, key, count);
                    UNROLLED(i, QV)
                        slope[i] *= factor[i];
                    FOR_TILE(j, count) {
                        UNROLLED(i, QV)
                            slope[i] = fma(s[j][i], dp[j][i], slope[i]);
                    }
                    continue;
                }
                if (end > TILE)
                    softmax_again(&p, s, past + first, key, count);
                FOR_TILE(j, count) {
                    global float *sum = sums + (key + j) * partial_ld;
                    UNROLLED(i, QV) {
                        const vec term = s[j][i] * factor[i] * (dp[j][i] - slope[i]);
                        STORE(LOAD(sum + i * VW) + term, sum + i * VW);
                    }
                }
            }
            if (turn == 0) {
                softmax_end(&p, end);
                UNROLLED(i, QV) {
                    factor[i] = 1.0f / p.mass[i];
                    slope[i] *= factor[i];
                }
            }
        }
    }
}
