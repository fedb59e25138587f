/* BSpMM tn on tensor cores (mma.clh): the partial sums of bspmm_tn_tiled.cl, with operands rounded to
 * TF32 or bf16.
 *
 *       dy_n, SEG rows            xs_n, tiles of a warp          partial
 *     +----+------+-----+        +-----+----+-----+          +------------------+
 *     |    |panel |     |   t -> |     |kept|     |          | CT x PANEL tile  |  in
 *     |    |(local|     |   t'-> |     |kept|     |          +------------------+  registers
 *     +----+------+-----+        +-----+----+-----+
 *
 * tiled_tn.clh describes groups, teams and tiles; a team is a warp. For each of its tiles a warp
 * multiplies, MMA_K entries of the list at a time,
 *
 *     a: the panel's outputs of the entries' rows of dy, gathered from local memory
 *     b: the entries' values, CT columns of the block, loaded while the step before is multiplied
 *
 * so the reduction runs over kept blocks only. As in bspmm_tn_tiled.cl, the next segment is in flight
 * meanwhile; dy is rounded once, when it is written to local memory. Lists are padded with entries of
 * value 0 whose row is a row of zeros after the segment.
 *
 * The assignment of the block's columns is free: column c of matrix j is column N_TILES c + j, so a
 * lane reads its values of an entry at once. Rows of dy lie PITCH words apart, 8 modulo 32. So
 * (mma_gather.clh) there are no bank conflicts between rows that differ modulo 4, such as those of
 * successive entries in a dense list. With random rows the worst bank serves 2.1 accesses on average
 * (1 in 24 of 256 cases, 2 in 180, 3 in 48, 4 in 4).
 *
 * Local memory: 8 * (SEG + 1) * PITCH + TEAMS * SLOTS * (16 * LIST + 8) bytes. PANEL: a multiple of 32. CT: 1 to
 * 8 * N_TILES, at most BC; SLOTS 1 where CT < BC. LANES 32. DYV 4: rows of dy begin at multiples of 16 bytes and
 * have a multiple of 4 elements; else 1. */
#include "tiles/mma.clh"
#include "sparse/tiled_tn.clh"
#include "sparse/mma_gather.clh"
#if CT > BC || CT > 8 * N_TILES || (CT < BC && SLOTS != 1)
#error "CT is at most BC and 8 * N_TILES, SLOTS 1 where CT < BC"
#endif

#define PITCH  (PANEL_WORDS + 8)
#define PANELS ((SEG + 1) * PITCH) /* words of a segment's panel */

/* The first words of the rows of dy of a lane's entries of a step. */
static inline void read_rows(local const uint2 *list, const uint lane, uint *row)
{
    UNROLLED(i, MMA_EACH)
        row[i] = list[MMA_KEY(i, lane % 4)].x * PITCH;
}

/* N_TILES values of each of these entries. Padding reads value row 0, columns beyond CT read the last one, and
 * both are then set to 0: no branch comes between the products. */
static inline void read_values(
    local const uint2 *list, global const float *x, const uint lane, float *value)
{
    const uint column = lane / 4 * N_TILES;
    UNROLLED(i, MMA_EACH) {
        const uint2 entry = list[MMA_KEY(i, lane % 4)];
        const bool there = entry.x < SEG;
        global const float *from = x + (ulong)entry.y * BC;
        float *to = value + i * N_TILES;
#if N_TILES == 2 && CT == 16 && XV == 4
        const float2 v = *(global const float2 *)(from + column);
        to[0] = there ? v.x : 0.0f, to[1] = there ? v.y : 0.0f;
#elif N_TILES == 4 && CT == 32 && XV == 4
        const float4 v = *(global const float4 *)(from + column);
        to[0] = there ? v.x : 0.0f, to[1] = there ? v.y : 0.0f;
        to[2] = there ? v.z : 0.0f, to[3] = there ? v.w : 0.0f;
#else
        UNROLLED(j, N_TILES) {
            const float v = from[min(column + j, (uint)CT - 1)];
            to[j] = there && column + j < CT ? v : 0.0f;
        }
#endif
    }
}

static inline void read_entries(
    local const uint2 *list, global const float *x, const uint lane, uint *row, float *value)
{
    FOR_MMA(t, A_LANES)
        read_rows(list, A_LANE(lane, t), row + t * MMA_EACH);
    FOR_MMA(u, B_LANES)
        read_values(list, x, B_LANE(lane, u), value + u * (MMA_EACH * N_TILES));
}

static inline void round_values(const float *value, uint2 *b)
{
    UNROLLED(j, N_TILES)
#if PRECISION == 1
        b[j * B_LANES] = (uint2)(mma_round(value[j]), mma_round(value[N_TILES + j]));
#else
        b[j * B_LANES] = (uint2)(mma_pack(value[j], value[N_TILES + j]),
            mma_pack(value[2 * N_TILES + j], value[3 * N_TILES + j]));
#endif
}

/* sum += the products of `count` entries. */
static inline void multiply(local const uint2 *list, const uint count, local const uint *panel,
    global const float *x, const uint lane, float4 *sum)
{
    uint row[MMA_EACH * A_LANES];
    float value[MMA_EACH * N_TILES * B_LANES];
    read_entries(list, x, lane, row, value);
#pragma nounroll
    for (uint e = MMA_K; e < count + MMA_K; e += MMA_K) {
        uint4 a[M_TILES * A_LANES];
        uint2 b[N_TILES * B_LANES];
        FOR_MMA(t, A_LANES)
            gather(panel, row + t * MMA_EACH, A_LANE(lane, t), a + t);
        FOR_MMA(u, B_LANES)
            round_values(value + u * (MMA_EACH * N_TILES), b + u);
        read_entries(list + min(e, (uint)(LIST - MMA_K)), x, lane, row, value);
        mma_tiles(sum, a, b);
    }
}

KERNEL_OF(LOCAL) bspmm_tn_mma(TN_PARAMETERS)
{
    local uint4 dy_vectors[2][PANELS / 4]; /* as vectors, for their alignment */
    local uint2 list[2][TEAMS * SLOTS][LIST];
    local uint count[2][TEAMS * SLOTS];
    const uint me = get_local_id(0), lane = me % LANES, team = me / LANES;
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    uint n = (uint)(split * batch / splits), s = 0; /* the segment that is read */
    const uint steps = ((uint)((split + 1) * batch / splits) - n) * (uint)segments;
    const uint tile = (GROUP_TILES * TEAMS + team) * SLOTS;
    const uint j = tile / CHUNKS, offset = min(tile % CHUNKS * CT, (uint)(BC - CT));
    const uint first_output = GROUP_PANEL * PANEL + me % QUADS * 4;
    global const uint *bounds = starts + starts_offset + n * segments * (block_cols + 1) + j;
    uint begin[SLOTS], end[SLOTS]; /* of the team's lists in the segment that is read */
    UNROLLED(i, SLOTS) {
        begin[i] = end[i] = 0;
        if (j + i < block_cols)
            begin[i] = bounds[i], end[i] = bounds[i + 1];
    }
    float4 sum[SLOTS * M_TILES * N_TILES];
    UNROLLED(i, SLOTS * M_TILES * N_TILES)
        sum[i] = (float4)(0.0f);
    values += values_offset;
    global const float *x = values; /* of the sample that is multiplied */
    for (uint i = me; i < 2 * PITCH; i += LOCAL)
        ((local uint *)dy_vectors[i / PITCH])[SEG * PITCH + i % PITCH] = 0;

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
                if (k * ROWS < segment)
                    dy_read[k] = read_outputs(
                    ROW(dy, n * rows + s * segment + min(me / QUADS + k * ROWS, last)), first_output,
                    outputs);
            s++;
            if (s == segments)
                s = 0, n++;
        }
        if (step > 0)
            UNROLLED(i, SLOTS)
                multiply(list[1 - now][team * SLOTS + i], count[1 - now][team * SLOTS + i],
                    (local const uint *)dy_vectors[1 - now], x + offset, lane, sum + i * M_TILES * N_TILES);
        if (step < steps) {
            UNROLLED(k, DY_READS)
                if (me / QUADS + k * ROWS < segment && me < ROWS * QUADS)
                    *(local mma_four *)((local uint *)dy_vectors[now] +
                                       (me / QUADS + k * ROWS) * PITCH + me % QUADS * WORD) =
                        mma_round_four(dy_read[k]);
            UNROLLED(i, SLOTS)
                write_list(list[now][team * SLOTS + i], entry_read + i * LIST_READS, lane);
            x = values + sample * keep * BR * BC;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    partial += TN_PARTIAL + 4 * (lane / 4);
#pragma unroll
    for (uint i = 0; i < SLOTS * M_TILES; i += 2)
        UNROLLED(k, N_TILES) {
            const uint c = lane % 4 * 2 * N_TILES + k; /* column 2 (lane % 4) of matrix k */
            const float4 low = sum[i * N_TILES + k], high = sum[(i + 1) * N_TILES + k];
            const uint block = j + i / M_TILES;
            global float *to =
                partial + ((ulong)block * BC + offset + c) * PANEL + i % M_TILES * 16;
            if (block >= block_cols)
                continue;
            if (c < CT && offset + c >= tile % CHUNKS * CT)
                *(global float4 *)to = (float4)(low.x, low.z, high.x, high.z);
            if (c + N_TILES < CT && offset + c + N_TILES >= tile % CHUNKS * CT)
                *(global float4 *)(to + N_TILES * PANEL) = (float4)(low.y, low.w, high.y, high.w);
        }
}
