/* priorities[n * blocks + i] = scores[n * blocks + i] / u(seed, first_sample + n, i), u uniform in
 * (0, 1].
 *
 * u is a function of its three arguments alone (two rounds of the murmur3 finaliser over their mix),
 * so that every device draws the same. Group n takes sample n; its LOCAL work-items take blocks in
 * turn. No local memory. LOCAL: any >= 1. */
#ifndef LOCAL
#error "prune_draw.cl needs LOCAL"
#endif

/* A bijection of 32 bits in which every bit of the argument moves every bit of the result. */
static inline uint mix(uint h)
{
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void prune_draw(const ulong first_sample,
    const ulong blocks, const ulong seed, const ulong scores_offset,
    global const float *restrict scores,
    const ulong priorities_offset, global float *restrict priorities)
{
    const ulong n = get_group_id(0);
    const uint sample =
        mix(mix((uint)(seed >> 32) + 0x9e3779b9u) ^ (uint)seed) + (uint)(first_sample + n) * 0x9e3779b9u;
    const uint key = mix(sample);
    scores += scores_offset + n * blocks;
    priorities += priorities_offset + n * blocks;
    for (ulong i = get_local_id(0); i < blocks; i += LOCAL) {
        const uint bits = mix(mix((uint)i ^ key) + sample);
        const float u = (float)((bits >> 8) + 1) * 0x1p-24f;
        priorities[i] = scores[i] / u;
    }
}
