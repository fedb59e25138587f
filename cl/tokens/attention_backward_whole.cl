/* The backward pass of attention on CPUs, where the scores of a block of queries fit a near cache: each product
 * runs once. attention_backward.cl has the formulas and the sizes.
 *
 * A group takes a head of k of a sample, and goes through the LANES queries of one block after the other:
 *
 *     s[j] = scale * q . k[j], dp[j] = dy . v[j]      for all keys, a lane a query
 *     p, ds                                           in their place; ds has the factor scale
 *     dq  = sum_j ds[j] k[j]
 *     dk[j] += sum over lanes of ds[j] * q, dv[j] += sum over lanes of p[j] * dy
 *
 * The last two are products of rows of lanes with rows of E elements, which are kept as vectors: COLS of them, a
 * tile of KEYS keys x COLS vectors in registers.
 * With BF16 keys and values are packed once, for all blocks.
 * TILE: keys, at most. LOCAL is 1, VW 16. Local memory: (4 * ROW + 2 * TILE) * LANES floats, with CAP TILE * LANES more;
 * ROW is E rounded up to 16. With BF16 ROW is half of E, rounded up to 16, and there are 3 * TILE * ROW floats more. */
#include "tokens/attention_rows.clh"
#include "tokens/attention_cap.clh"
#include "tokens/attention_drop.clh"
#if !WHOLE
#error "attention_backward_whole.cl needs WHOLE, and LOCAL 1"
#endif

#define COLS (EV % 4 == 0 ? 4 : EV % 3 == 0 ? 3 : EV % 2 == 0 ? 2 : 1)
#define KEYS 4

/* What add_lanes reads of s, rows of TERM_WORDS: with BF16 the pairs of lanes, in `room`, which may be s. */
#define TERM_WORDS (BF16 ? 16 : LANES)
INLINED local const word *lane_terms(local vec (*room)[QV], local vec (*s)[QV], const uint count)
{
#if BF16
    for (uint j = 0; j < count; j++)
        room[j / QV][j % QV] = as_float16(round32(s[j][0], QV > 1 ? s[j][QV - 1] : (vec)(0.0f)));
    return (local const word *)room;
#else
    return (local const word *)s;
#endif
}

/* The rows of the lanes: words of 16 * EV columns, or of pairs of rows. */
INLINED void load_rows(local words *x, const head_rows from, const uint first, const uint count)
{
#if BF16
    pairs_of((local word *)x, from, first, count);
#else
    for (uint i = 0; i < count; i++)
        for (uint c = 0; c < EV; c++)
            x[i * EV + c] = first16(from.at + (first + i) * from.ld + c * VW, E - c * VW);
#endif
}

/* to[j] = the sum over the first `lanes` lanes of terms[j] * x, for j < count, added to what is there unless it `begins`. */
INLINED void add_lanes(global float *to, const ulong ld, local const word *terms, local const words *x,
    const uint lanes, const uint count, const bool begins)
{
    for (uint j0 = 0; j0 < count; j0 += KEYS) {
        const uint keys = min((uint)KEYS, count - j0);
        for (uint c = 0; c < EV; c += COLS) {
            vec sum[KEYS][COLS];
            UNROLLED(j, KEYS)
                UNROLLED(k, COLS)
                    sum[j][k] = j < keys && !begins
                                    ? load_part(to + (j0 + j) * ld + (c + k) * VW, E - (c + k) * VW, 0)
                                    : (vec)(0.0f);
            for (uint i = 0; i < WORDS_OF(lanes); i++) {
                UNROLLED(j, KEYS) {
                    const words one = terms[(j0 + j) * TERM_WORDS + i];
                    UNROLLED(k, COLS)
                        sum[j][k] = ADD_PRODUCT(sum[j][k], one, x[i * EV + c + k]);
                }
            }
            UNROLLED(j, KEYS)
                UNROLLED(k, COLS)
                    if (j < keys)
                        store_part(sum[j][k], to + (j0 + j) * ld + (c + k) * VW, E - (c + k) * VW);
        }
    }
}

/* s, scores, and dp become p and scale * ds, for j < count. Lanes without a query get zeros. */
static inline void settle_terms(local vec (*s)[QV], local vec (*dp)[QV], const uint first,
    const uint rows, const uint past, const float scale, const uint count)
{
    UNROLLED(v, QV) {
        const ivec row = lane_rows(first, v);
        vec most = -INFINITY, mass = 0, slope = 0;
        for (uint j = 0; j < count; j++) {
            if (j > past + first)
                s[j][v] = row + (ivec)((int)past) < (ivec)((int)j) ? (vec)(-INFINITY) : s[j][v];
            most = s[j][v] > most ? s[j][v] : most;
        }
        for (uint j = 0; j < count; j++) {
            s[j][v] = exp_sum(s[j][v] - most, (vec)(0.0f));
            mass += s[j][v];
            slope = fma(s[j][v], dp[j][v], slope);
        }
        const vec zero = 0, part = row < (ivec)((int)rows) ? 1.0f / mass : zero;
        slope *= part;
        for (uint j = 0; j < count; j++) {
            s[j][v] *= part;
            dp[j][v] = scale * s[j][v] * (dp[j][v] - slope);
        }
    }
}

static inline void set_zero(global float *x, const ulong ld, const uint rows)
{
    for (uint r = 0; r < rows; r++)
        for (uint c = 0; c < E; c++)
            x[r * ld + c] = 0;
}

KERNEL_OF(1) attention_backward_whole(ATTENTION_SIZES, MAT_IN(q), MAT_IN(k), MAT_IN(v), MAT_IN(dy), MAT_OUT(dq),
    MAT_OUT(dk), MAT_OUT(dv))
{
    OWN_LOCAL(own_q);
    OWN_LOCAL(own_dy);
    ROOM_LOCAL(k_room, TILE);
    ROOM_LOCAL(v_room, TILE);
    ROOM_LOCAL(k_pairs_room, TILE);
    local words lanes_q[WORDS_OF(LANES) * EV], lanes_dy[WORDS_OF(LANES) * EV];
    local vec s[TILE][QV], dp[TILE][QV];
    CAP_SLOPES(flat);
    const uint head = (uint)(get_group_id(0) % (heads / share));
    const ulong sample = get_group_id(0) / (heads / share);
    const head_rows keys = KEY_ROWS(k, sample, head), values = KEY_ROWS(v, sample, head);
    global float *to_k = HEAD_AT(dk, sample * key_rows, head),
                 *to_v = HEAD_AT(dv, sample * key_rows, head);
    const uint some = KEYS_OF(sample);
    others k_rows = rows_of(k_room, keys, 0, some), v_rows = rows_of(v_room, values, 0, some),
           k_pairs = pairs_of(k_pairs_room, keys, 0, some);
    vec one[QV];
    UNROLLED(i, QV)
        one[i] = 1;
    for (uint h = head * share; h < (head + 1) * share; h++) {
        const head_rows q_rows = HEAD_ROWS(q, sample, h), dy_rows = SLOPE_ROWS(h);
        const dropout z =
            dropout_of(seed, (first_sample + sample) * heads + h, threshold, kept_scale);
        for (uint first = 0; first < queries; first += LANES) {
            const uint count = KEYS_SEEN(first + LANES, some), lanes = min((uint)LANES, queries - first);
            const bool begins = first == 0 && h == head * share;
            vec sum[E][QV];
            ivec from[QV];
            start_lanes(from, STARTS_OF(sample), first, queries);
            load_own(own_q, q_rows, first, queries);
            load_own(own_dy, dy_rows, first, queries);
            load_rows(lanes_q, q_rows, first, lanes);
            load_rows(lanes_dy, dy_rows, first, lanes);
            dot_rows(s, own_q, k_rows, keys.ld, scale, count);
            cap_scores(s, flat, cap, count);
            bias_keys(s, BIAS_ROWS(sample, h), first, rows, 0, count);
            hide_before(s, from, 0, count);
            dot_rows(dp, own_dy, v_rows, values.ld, 1.0f, count);
            drop_keys(z, dp, first, 0, count);
            settle_terms(s, dp, first, queries, past, scale, count);
            uncap(dp, flat, count);
            drop_keys(z, s, first, 0, count);
            add_lanes(to_v, dv_ld, lane_terms(s, s, count), lanes_dy, lanes, count, begins);
            add_lanes(to_k, dk_ld, lane_terms(s, dp, count), lanes_q, lanes, count, begins);
            if (begins) {
                set_zero(to_k + count * dk_ld, dk_ld, key_rows - count);
                set_zero(to_v + count * dv_ld, dv_ld, key_rows - count);
            }
            for (uint e = 0; e < E; e++)
                UNROLLED(i, QV)
                    sum[e][i] = 0;
            add_rows(sum, one, dp, k_pairs, keys.ld, count);
            store_lanes(HEAD_AT(dq, sample * rows, h), dq_ld, first, queries, sum, one, (local float *)own_q);
        }
    }
}
