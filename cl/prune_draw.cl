/* priorities[n * blocks + i] = scores[n * blocks + i] / u(seed, first_sample + n, i), u uniform in
 * (0, 1].
 *
 * u is a function of its three arguments alone (draw.clh). Group n takes sample n; its LOCAL
 * work-items take blocks in turn. No local memory. LOCAL: any >= 1. */
#ifndef LOCAL
#error "prune_draw.cl needs LOCAL"
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void prune_draw(const ulong first_sample,
    const ulong blocks, const ulong seed, const ulong scores_offset,
    global const float *restrict scores,
    const ulong priorities_offset, global float *restrict priorities)
{
    const ulong n = get_group_id(0);
    const uint sample = draw_sample(seed, first_sample + n), key = mix(sample);
    scores += scores_offset + n * blocks;
    priorities += priorities_offset + n * blocks;
    for (ulong i = get_local_id(0); i < blocks; i += LOCAL) {
        const uint bits = draw((uint)i, key, sample);
        const float u = (float)((bits >> 8) + 1) * 0x1p-24f;
        priorities[i] = scores[i] / u;
    }
}
