/* priorities[n * blocks + i] = scores[n * blocks + i] / u(seed, first_sample + n, i), u uniform in
 * (0, 1].
 *
 * u is a function of its three arguments alone (draw.clh). score / u may exceed FLT_MAX; so if a
 * sample has a finite score above LARGE, all its scores are first multiplied by 2^-32, in place,
 * which changes neither their order nor their ratios. Group n takes sample n; its LOCAL work-items
 * take blocks in turn. Local memory: 4 bytes where LOCAL > 1. LOCAL: any >= 1. */
#include "prelude/draw.clh"
#ifndef LOCAL
#error "prune_draw.cl needs LOCAL"
#endif
#define LARGE 0x1p100f /* LARGE / u is finite, as 1 / u <= 2^24 */

KERNEL_OF(LOCAL) prune_draw(const ulong first_sample, const ulong blocks, const ulong seed,
    REGION_OUT(float, scores), REGION_OUT(float, priorities))
{
    const ulong n = get_group_id(0);
    const uint sample = draw_sample(seed, first_sample + n), key = mix(sample);
    scores += scores_offset + n * blocks;
    priorities += priorities_offset + n * blocks;
    bool is_large = false;
    for (ulong i = get_local_id(0); i < blocks; i += LOCAL)
        is_large |= scores[i] > LARGE && scores[i] < INFINITY;
#if LOCAL > 1
    local uint any_large;
    if (get_local_id(0) == 0)
        any_large = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (is_large)
        any_large = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    is_large = any_large != 0;
#endif
    const float unit = is_large ? 0x1p-32f : 1.0f;
    for (ulong i = get_local_id(0); i < blocks; i += LOCAL) {
        const uint bits = draw((uint)i, key, sample);
        const float u = (float)((bits >> 8) + 1) * 0x1p-24f;
        const float score = unit * scores[i];
        scores[i] = score;
        priorities[i] = score / u;
    }
}
