/* BSpMM tn for GPUs: the same partial sums as bspmm_tn_vector.cl, with PANEL = 4 * LANES outputs.
 *
 *       dy_n, SEG rows            xs_n, tiles of a team          partial
 *     +----+------+-----+        +-----+----+-----+          +------------------+
 *     |    |panel |     |   t -> |     |kept|     |          | CT x PANEL tile  |  in registers:
 *     |    |(local|     |   t'-> |     |kept|     |          +------------------+  CT x 4 of each
 *     +----+------+-----+        +-----+----+-----+                                work-item
 *
 * tiled_tn.clh describes groups, teams and tiles. Work-item `lane` of a team holds the outputs
 * 4 * lane .. 4 * lane + 3 of its tiles. For each segment of SEG rows
 *
 *     local dy_tile[SEG][LANES]                 <- the panel of dy, once for all teams
 *     local list[team * SLOTS + i][SEG]         <- the entries of each tile's block column
 *
 * and each team walks its own lists. For an entry a work-item reads one float4 of dy_tile and CT values,
 * the same for the whole team, and does CT fma of float4. Both tiles and lists are double-buffered: while
 * a segment is multiplied, the next segment and the bounds of the lists after it are in flight to
 * registers; the values of an entry are loaded while the entry before is multiplied. One barrier a
 * segment.
 *
 * If CT does not divide BC, the last part of a block begins earlier, so that it has CT columns too; the
 * columns that it shares with the part before are stored by that part.
 *
 * Local memory: 2 * SEG * 16 * LANES + TEAMS * SLOTS * (16 * SEG + 8) bytes, with CONV 8 * SEG more. CT: 1
 * to 16, at most BC; SLOTS 1 where CT < BC. SEG: 1 to 256. DYV 4: rows of dy begin at multiples of 16
 * bytes and have a multiple of 4 elements; else 1. */
#include "sparse/tiled_tn.clh"
#if CT > BC || CT > 16 || (CT < BC && SLOTS != 1)
#error "CT is at most BC and 16, SLOTS 1 where CT < BC"
#endif

/* sum += the products of `count` entries. Each used value's register takes the next entry's value. */
static inline void multiply(local const uint2 *list, const uint count, local const float4 *dy_lane,
    global const float *x, float4 *sum)
{
    float value[CT];
    uint2 entry = first_entry(list, count, x, value);
#pragma nounroll
    for (uint e = 1; e <= count; e++) {
        const float4 d = dy_lane[entry.x * LANES];
        entry = list[min(e, count - 1)];
        global const float *next = x + (ulong)entry.y * BC;
#pragma unroll
        for (uint c = 0; c < CT; c += RUN) {
#pragma unroll
            for (uint i = c; i < c + RUN; i++)
                sum[i] = fma((float4)(value[i]), d, sum[i]);
            read_run(value + c, next + c);
        }
    }
}

KERNEL_OF(LOCAL) bspmm_tn_tiled(TN_PARAMETERS)
{
    local float4 dy_tile[2][SEG * LANES];
    local uint2 list[2][TEAMS * SLOTS][SEG];
    local uint count[2][TEAMS * SLOTS];
    RESULTS
    const uint me = get_local_id(0), lane = me % LANES, team = me / LANES;
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    uint n = (uint)(split * batch / splits), s = 0; /* the segment that is read */
    const uint steps = ((uint)((split + 1) * batch / splits) - n) * (uint)segments;
    const uint tile = (TAP_GROUP * TEAMS + team) * SLOTS;
    const uint j = tile / CHUNKS, offset = min(tile % CHUNKS * CT, (uint)(BC - CT));
    const uint first_output = GROUP_PANEL * PANEL + 4 * lane;
    /* The bounds of the team's lists, of the segment after the one that is read. */
    global const uint *bounds = starts + starts_offset + n * segments * (block_cols + 1) + j;
    uint begin[SLOTS], end[SLOTS];
    UNROLLED(i, SLOTS) {
        begin[i] = end[i] = 0;
        if (j + i < block_cols)
            begin[i] = bounds[i], end[i] = bounds[i + 1];
    }
    float4 sum[SLOTS * CT];
    UNROLLED(i, SLOTS * CT)
        sum[i] = (float4)(0.0f);
    values += values_offset;
    global const float *x = values; /* of the sample that is multiplied */

    FIND_RESULTS(0, 0)
    FOUND_RESULTS;
    for (uint step = 0; step <= steps; step++) {
        const uint now = step % 2;
        float4 dy_read[DY_READS];
        uint2 entry_read[SLOTS * LIST_READS];
        const uint sample = n;
        if (step < steps) {
            global const uint2 *from = entries + entries_offset + n * keep * BR;
            bounds += block_cols + 1;
            UNROLLED(i, SLOTS) {
                if (lane == 0)
                    count[now][team * SLOTS + i] = end[i] - begin[i];
                read_list(entry_read + i * LIST_READS, from, begin[i], end[i], lane);
                if (j + i < block_cols && step + 1 < steps)
                    begin[i] = bounds[i], end[i] = bounds[i + 1];
            }
            const uint last = (uint)min(segment, rows - s * segment) - 1;
            UNROLLED(k, DY_READS)
                if (k * TEAMS < segment)
                    dy_read[k] = READ_DY(now, n, s, min(team + k * TEAMS, last));
            s++;
            if (s == segments)
                s = 0, n++;
            FIND_RESULTS(1 - now, s)
        }
        if (step > 0)
            UNROLLED(i, SLOTS)
                multiply(list[1 - now][team * SLOTS + i], count[1 - now][team * SLOTS + i],
                    dy_tile[1 - now] + lane, x + offset, sum + i * CT);
        if (step < steps) {
            UNROLLED(k, DY_READS)
                if (team + k * TEAMS < segment)
                    dy_tile[now][(team + k * TEAMS) * LANES + lane] = dy_read[k];
            UNROLLED(i, SLOTS)
                write_list(list[now][team * SLOTS + i], entry_read + i * LIST_READS, lane);
            x = values + sample * keep * BR * BC;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    partial += TN_PARTIAL;
    UNROLLED(i, SLOTS)
        UNROLLED(c, CT)
            if (j + i < block_cols && offset + c >= tile % CHUNKS * CT)
                *(global float4 *)(partial + ((ulong)(j + i) * BC + offset + c) * PANEL + 4 * lane) =
                    sum[i * CT + c];
}
