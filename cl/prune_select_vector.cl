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

#define KEY_OF_INF 0xff800000u

inline uint sum_of_lanes(const int16 v)
{
    const int8 eight = v.lo + v.hi;
    const int4 four = eight.lo + eight.hi;
    return (uint)(four.s0 + four.s1 + four.s2 + four.s3);
}

/* COUNT(below, <): how many of the scores are below `bound`, which NaN is not. */
#define COUNT(name, relation)                                                                      \
    inline uint count_##name(global const float *scores, const ulong blocks, const float bound)    \
    {                                                                                              \
        int16 total = (int16)(0);                                                                  \
        ulong i = 0;                                                                               \
        for (; i + 16 <= blocks; i += 16)                                                          \
            total -= vload16(0, scores + i) relation(float16)(bound);                              \
        uint count = sum_of_lanes(total);                                                          \
        for (; i < blocks; i++)                                                                    \
            count += scores[i] relation bound;                                                     \
        return count;                                                                              \
    }
COUNT(below, <)
COUNT(up_to, <=)

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
    const uint all = (uint)blocks;
    const uint nans = all - count_up_to(scores, blocks, INFINITY);

    /* T, as long as it is a number; else all numbers are below it. */
    const bool number = nans < keep;
    uint key = 0;
    for (uint bit = 0x80000000u; number && bit != 0; bit >>= 1)
        if ((key | bit) <= KEY_OF_INF &&
            all - count_below(scores, blocks, score_of(key | bit)) >= keep)
            key |= bit;
    const float t = score_of(key);
    const uint from_t = number ? all - count_below(scores, blocks, t) : nans;

    float best = -INFINITY; /* of the scores that are not kept */
    ulong i = 0;
    if (number && from_t == keep) { /* no tie is left out */
        float16 most = (float16)(-INFINITY);
        for (; i + 16 <= blocks; i += 16) {
            const float16 score = vload16(0, scores + i);
            const int16 dropped = score < (float16)(t);
            vstore16(convert_uchar16(dropped + 1), 0, mask + i);
            most = dropped && score > most ? score : most;
        }
        float lanes[16];
        vstore16(most, 0, lanes);
        for (uint lane = 0; lane < 16; lane++)
            best = max(best, lanes[lane]);
    }
    /* The ties that are kept are the first ones: all but from_t - keep. */
    const uint above = number ? all - count_up_to(scores, blocks, t) : 0;
    uint ties = keep - above;
    for (; i < blocks; i++) {
        const float score = scores[i];
        const bool better = number && (score > t || isnan(score));
        const bool tied = number ? score == t : isnan(score);
        const bool kept = better || (tied && (from_t == keep || ties > 0));
        ties -= tied && ties > 0 ? 1 : 0;
        mask[i] = kept;
        best = kept || best > score ? best : score;
    }
#if THRESHOLD
    thresholds[thresholds_offset + get_group_id(0)] = best;
#endif
}
