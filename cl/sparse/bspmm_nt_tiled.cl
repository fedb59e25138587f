/* BSpMM nt for GPUs: the same partial sums as bspmm_nt_vector.cl, with PANEL = 4 * LANES rows of dw.
 *
 *       dy_n^T, CT columns             xs_n, block column j         partial
 *     c +-------------------+     p -> |kept| x x x x x|        +----------------+
 *       | panel, CT x 4 in  |     p'-> |kept| x x x x x|        | SEG rows x     |  in local
 *       | each work-item    |          +----+                   | PANEL outputs  |  memory
 *       +-------------------+                                   +----------------+
 *
 * tiled_nt.clh describes groups, teams and runs. Work-item `lane` of a team holds the outputs
 * 4 * lane .. 4 * lane + 3. For each sample, block column and run of CT columns
 *
 *     local dy_tile[CT][PANEL]  <- the panel of dy, read along the columns, once for all teams
 *     local list[team][SEG]     <- the entries of the block column in the team's segment
 *     d[CT]                     <- the work-item's four outputs of dy_tile, in registers
 *
 * and each team walks its own list. For an entry a work-item reads CT values, the same for the whole
 * team, does CT fma of float4, and updates one float4 of the local sums, which no other work-item
 * touches. While a run is multiplied, the next run and the bounds of the list after it are in flight to
 * registers; the values of an entry are loaded while the entry before is multiplied.
 *
 * Local memory: 16 * (TEAMS * SEG * LANES + CT * (LANES + 1)) + TEAMS * (16 * SEG + 8) bytes.
 * CT: 1 to 16, divides BC. DYV 4: rows of dy begin at multiples of 16 bytes and have a multiple of 4
 * columns, 4 divides CT; else 1. */
#include "sparse/tiled_nt.clh"
#if CT > 16
#error "CT is at most 16"
#endif
#define PITCH (PANEL + 4) /* of dy_tile, so that an output's columns lie in different banks */

/* sums += the products of `count` entries. Each used value's register takes the next entry's value. */
static inline void multiply(local const uint2 *list, const uint count, const float4 *d,
    global const float *x, local float4 *sums)
{
    float value[CT];
    uint2 entry = first_entry(list, count, x, value);
#pragma nounroll
    for (uint e = 1; e <= count; e++) {
        local float4 *to = sums + entry.x * LANES;
        float4 sum = *to;
        entry = list[min(e, count - 1)];
        global const float *next = x + (ulong)entry.y * BC;
#pragma unroll
        for (uint c = 0; c < CT; c += RUN) {
#pragma unroll
            for (uint i = c; i < c + RUN; i++)
                sum = fma((float4)(value[i]), d[i], sum);
            read_run(value + c, next + c);
        }
        *to = sum;
    }
}

KERNEL_OF(LOCAL) bspmm_nt_tiled(NT_PARAMETERS)
{
    local float4 sums[TEAMS * SEG * LANES];
    local float4 dy_tile_vectors[CT * PITCH / 4]; /* as vectors, for their alignment */
    local uint2 list[2][TEAMS][SEG];
    local uint count[2][TEAMS];
    local float *dy_tile = (local float *)dy_tile_vectors;
    /* The bound lets compilers simplify the divisions below, which saves registers. */
    const uint me = get_local_id(0) % LOCAL, lane = me % LANES, team = me / LANES;
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    const uint first_output = GROUP_PANEL * PANEL;
    const uint last_output = (uint)min((ulong)PANEL, outputs - first_output) - 1;
    const uint segment = GROUP_TILES * TEAMS + team;
    uint n = (uint)(split * batch / splits), j = 0, offset = 0; /* the run that is read */
    const uint steps = ((uint)((split + 1) * batch / splits) - n) * (uint)block_cols * (BC / CT);
    global const uint *bounds = starts + starts_offset + (n * segments + segment) * (block_cols + 1);
    uint begin = 0, end = 0; /* of the list of the run that is read */
    if (segment < segments)
        begin = bounds[0], end = bounds[1];
    local float4 *my_sums = sums + team * SEG * LANES + lane;
    for (uint r = 0; r < SEG; r++)
        my_sums[r * LANES] = (float4)(0.0f);
    float4 d[CT];
    values += values_offset;
    global const float *x = values; /* of the run that is multiplied */

    for (uint step = 0; step <= steps; step++) {
        const uint now = step % 2;
        dy_run dy_read[DY_READS];
        uint2 entry_read[LIST_READS];
        global const float *x_read = values + n * keep * BR * BC + offset;
        if (step < steps) {
            global const uint2 *from = entries + entries_offset + n * keep * BR;
            if (lane == 0)
                count[now][team] = end - begin;
            read_list(entry_read, from, begin, end, lane);
            UNROLLED(k, DY_READS) {
                const uint i = me + k * LOCAL;
                const ulong c = (ulong)j * BC + offset + i % RUNS * DYV;
                global const float *row =
                    ROW(dy, n * outputs + first_output + min(i / RUNS, last_output));
                dy_read[k] = read_dy(row, c, cols);
            }
            next_run(&n, &j, &offset, &bounds, &begin, &end, block_cols, segments,
                segment < segments && step + 1 < steps);
        }
        if (step > 0)
            multiply(list[1 - now][team], count[1 - now][team], d, x, my_sums);
        if (step < steps) {
            x = x_read;
            write_list(list[now][team], entry_read, lane);
            UNROLLED(k, DY_READS) {
                const uint i = me + k * LOCAL;
                local float *to = dy_tile + i % RUNS * DYV * PITCH + i / RUNS;
                if (i >= PANEL * RUNS)
                    continue;
#if DYV == 4
                to[0] = dy_read[k].x, to[PITCH] = dy_read[k].y;
                to[2 * PITCH] = dy_read[k].z, to[3 * PITCH] = dy_read[k].w;
#else
                to[0] = dy_read[k];
#endif
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLLED(c, CT)
            d[c] = dy_tile_vectors[c * (PITCH / 4) + lane];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    partial += NT_PARTIAL;
    for (ulong r = 0; r < SEG && segment * SEG + r < rows; r++)
        *(global float4 *)(partial + (segment * SEG + r) * PANEL + 4 * lane) = my_sums[r * LANES];
}
