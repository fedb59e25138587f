/* mask[n * blocks + i] = 1 for the `keep` best scores of sample n, else 0, keep >= 1.
 *
 * The order is total: NaN of either sign first, then the larger score (-0 equals 0), then the lower
 * index. Group n takes sample n. Radix selection finds the key T of the keep-th best score, RADIX
 * bits of the key at a time, from a histogram in local memory. Then the blocks with keys above T are
 * kept, and the first blocks with key T, in index order, until there are `keep`.
 *
 *     work-item:   0         1         2     ...        the LOCAL work-items own equal runs of
 *     blocks:   [0 .. s)  [s .. 2s) [2s .. 3s)          consecutive blocks; the number of ties
 *                                                       before a run gives the ranks of its own
 *
 * With THRESHOLD, thresholds[n] = the best score that is not kept; keep < blocks.
 *
 * Local memory: (2^RADIX + LOCAL + 3) * 4 bytes at most. LOCAL: any >= 1. RADIX: 4 to 11. */
#include "prune/prune_key.clh"
#if !defined(LOCAL) || !defined(RADIX) || !defined(THRESHOLD)
#error "prune_select.cl needs LOCAL, RADIX and THRESHOLD"
#endif
#define BINS (1u << RADIX)

KERNEL_OF(LOCAL) prune_select(const ulong blocks, const uint keep, REGION_IN(float, scores),
    REGION_OUT(uchar, mask) IF(THRESHOLD)(COMMA REGION_OUT(float, thresholds)))
{
    local uint bins[BINS];
    local uint ties_before[LOCAL];
    local uint chosen_bin, wanted;
    const uint me = get_local_id(0);
    scores += scores_offset + get_group_id(0) * blocks;
    mask += mask_offset + get_group_id(0) * blocks;

    /* The high bits of T found so far, and the number of blocks to keep among those that share them. */
    uint prefix = 0;
    uint left = keep;
    for (int high = 32; high > 0;) {
        const int low = max(high - RADIX, 0);
        for (uint i = me; i < BINS; i += LOCAL)
            bins[i] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint bin_mask = (1u << (high - low)) - 1;
        for (ulong i = me; i < blocks; i += LOCAL) {
            const uint key = key_of(scores[i]);
            if (high == 32 || key >> high == prefix)
                atomic_inc(&bins[(key >> low) & bin_mask]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me == 0) {
            uint bin = bin_mask;
            uint rest = left;
            while (bins[bin] < rest)
                rest -= bins[bin--];
            chosen_bin = bin;
            wanted = rest;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        prefix = prefix << (high - low) | chosen_bin;
        left = wanted;
        high = low;
    }

    /* Ties: ranks in index order. */
    const ulong run = (blocks + LOCAL - 1) / LOCAL;
    const ulong first = min(me * run, blocks);
    const ulong last = min(first + run, blocks);
    uint ties = 0;
    for (ulong i = first; i < last; i++)
        ties += key_of(scores[i]) == prefix;
    ties_before[me] = ties;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint rank = 0;
    for (uint i = 0; i < me; i++)
        rank += ties_before[i];
#if THRESHOLD
    local uint best_dropped;
    uint best = 0;
    if (me == 0)
        best_dropped = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    for (ulong i = first; i < last; i++) {
        const uint key = key_of(scores[i]);
        const bool kept = key > prefix || (key == prefix && rank++ < left);
        mask[i] = kept;
        IF(THRESHOLD)(best = kept ? best : max(best, key);)
    }
#if THRESHOLD
    (void)atomic_max(&best_dropped, best);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me == 0)
        thresholds[thresholds_offset + get_group_id(0)] = score_of(best_dropped);
#endif
}
