/* prune_select for CPUs: mask[n * blocks + i] = 1 for the `keep` best scores of sample n, else 0.
 *
 * The order is that of prune_select.cl: NaN first, then the larger score, then the lower index.
 * 1 <= keep < blocks. One work-item a group; group n takes sample n. The keep-th best score T is found
 * bit by bit from above: 32 passes that count the scores below a candidate, 16 at a time, cost less
 * than two histograms. With THRESHOLD, thresholds[n] = the best score that is not kept.
 *
 * No local memory. */
#ifndef THRESHOLD
#error "prune_select_vector.cl needs THRESHOLD"
#endif

/* Floats in the order of unsigned keys: negative ones below 0x80000000, Inf at 0xff800000. */
inline float score_of(const uint key)
{
    return as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}
#define KEY_OF_INF 0xff800000u

/* How many of the scores are below `bound`, which NaN is not. */
inline ulong count_below(global const float *scores, const ulong blocks, const float bound)
{
    int16 total = (int16)(0);
    ulong i = 0;
    for (; i + 16 <= blocks; i += 16)
        total -= vload16(0, scores + i) < (float16)(bound);
    uint below = 0;
    for (; i < blocks; i++)
        below += scores[i] < bound;
    const int8 eight = total.lo + total.hi;
    const int4 four = eight.lo + eight.hi;
    return below + (uint)(four.s0 + four.s1 + four.s2 + four.s3);
}

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void prune_select_vector(const ulong blocks,
    const uint keep, const ulong scores_offset, global const float *restrict scores,
    const ulong mask_offset, global uchar *restrict mask
#if THRESHOLD
    ,
    const ulong thresholds_offset, global float *restrict thresholds
#endif
)
{
    scores += scores_offset + get_group_id(0) * blocks;
    mask += mask_offset + get_group_id(0) * blocks;
    ulong nans = 0;
    for (ulong i = 0; i < blocks; i++)
        nans += isnan(scores[i]) ? 1 : 0;

    /* T, as long as it is a number; else all numbers are below it. */
    const bool number = nans < keep;
    uint key = 0;
    for (uint bit = 0x80000000u; number && bit != 0; bit >>= 1)
        if ((key | bit) <= KEY_OF_INF &&
            blocks - count_below(scores, blocks, score_of(key | bit)) >= keep)
            key |= bit;
    const float t = score_of(key);

    ulong above = number ? nans : 0;
    if (number)
        for (ulong i = 0; i < blocks; i++)
            above += scores[i] > t ? 1 : 0;
    ulong ties = keep - above; /* those of T's rank that are kept: the first ones */
    float best = -INFINITY;    /* of the scores that are not */
    for (ulong i = 0; i < blocks; i++) {
        const float score = scores[i];
        const bool tied = number ? score == t : isnan(score);
        const bool kept = number ? score > t || isnan(score) : false;
        const bool late = tied && ties > 0;
        ties -= late;
        mask[i] = kept || late;
        best = kept || late || best > score ? best : score;
    }
#if THRESHOLD
    thresholds[thresholds_offset + get_group_id(0)] = best;
#endif
}
