/* BSpMM nt on tensor cores (mma.clh): the partial sums of bspmm_nt_tiled.cl, with operands rounded to
 * TF32 or bf16.
 *
 *       dy_n^T, CT columns             xs_n, block column j         partial
 *     c +-------------------+     p -> |kept| x x x x x|        +----------------+
 *       | panel, CT x 4 in  |     p'-> |kept| x x x x x|        | SEG rows x     |  in local
 *       | each lane's a     |          +----+                   | PANEL outputs  |  memory
 *       +-------------------+                                   +----------------+
 *
 * tiled_nt.clh describes groups, teams and runs; a team is a warp. For each run a warp holds
 *
 *     a: the panel's outputs of the run's columns, read once for all entries of its list
 *
 * in registers, and walks its list, eight entries at a time:
 *
 *     b: the values of the eight entries, loaded while the eight before are multiplied
 *     sum: their rows of the local sums: loaded, added to, and stored
 *
 * The entries of a list have different rows, and between two runs there is a barrier; so no two lanes
 * race for a row of sums. Lists are padded with entries whose sums are not stored.
 *
 * The assignment of the run's columns to k is free: MMA_KEY(i, t) of step s is column EACH t +
 * MMA_EACH s + i, so a lane reads its EACH values of an entry at once. In local memory column c of dy
 * begins at word c PANEL_WORDS + 8 (c / EACH): if PANEL is 64 or more, there are no bank conflicts
 * (mma_gather.clh). Rows of sums lie SUM_PITCH floats apart, 8 modulo 32, as in bspmm_tn_mma.cl.
 *
 * Local memory: 4 * (TEAMS * SEG * SUM_PITCH + DEPTH * PANEL_WORDS + 32) + TEAMS * (16 * LIST + 8)
 * bytes, with DEPTH = CT rounded up to MMA_K. N_TILES 1. CT: at most 2 * MMA_K, divides BC. DYV 4: as in bspmm_nt_tiled.cl. */
#include "tiles/mma.clh"
#include "sparse/tiled_nt.clh"
#include "sparse/mma_gather.clh"
#if N_TILES != 1 || CT > 2 * MMA_K
#error "N_TILES is 1, CT at most 2 * MMA_K"
#endif
#define STEPS     ((CT + MMA_K - 1) / MMA_K)
#define EACH      (MMA_EACH * STEPS) /* columns of a lane */
#define DEPTH     (MMA_K * STEPS)
#define COLUMN(c) ((c)*PANEL_WORDS + (c) / EACH * 8)
#define SUM_PITCH (PANEL + 8)

/* The lane's EACH values of an entry. Padding reads value row 0; its products are not stored. */
static inline void read_values(const uint2 entry, global const float *x, const uint t, float *value)
{
    global const float *from = x + (ulong)entry.y * BC;
#if CT == DEPTH && XV == 4 && EACH % 4 == 0
#pragma unroll
    for (uint v = 0; v < EACH; v += 4) {
        const float4 run = *(global const float4 *)(from + EACH * t + v);
        value[v] = run.x, value[v + 1] = run.y, value[v + 2] = run.z, value[v + 3] = run.w;
    }
#else
    UNROLLED(v, EACH) {
        const float one = from[min(EACH * t + v, (uint)CT - 1)];
        value[v] = EACH * t + v < CT ? one : 0.0f;
    }
#endif
}

static inline uint2 round_step(const float *value)
{
#if PRECISION == 1
    return (uint2)(mma_round(value[0]), mma_round(value[1]));
#else
    return (uint2)(mma_pack(value[0], value[1]), mma_pack(value[2], value[3]));
#endif
}

/* The values of eight entries. */
static inline void read_entries(
    local const uint2 *list, global const float *x, const uint lane, float *value)
{
    FOR_MMA(u, B_LANES)
        read_values(list[B_LANE(lane, u) / 4], x, B_LANE(lane, u) % 4, value + u * EACH);
}

/* sums += the products of `count` entries. */
static inline void multiply(local const uint2 *list, const uint count, const uint4 *a,
    global const float *x, const uint lane, local float *sums)
{
    const uint g = lane / 4, t = lane % 4;
    float value[EACH * B_LANES];
    read_entries(list, x, lane, value);
#pragma nounroll
    for (uint e = 0; e < count; e += 8) {
        /* The lane's two columns of the product belong to two entries. */
        const uint row = list[e + 2 * t].x, next_row = list[e + 2 * t + 1].x;
        local float *even = sums + row * SUM_PITCH + 4 * g;
        local float *odd = sums + next_row * SUM_PITCH + 4 * g;
        float4 sum[M_TILES];
        uint2 b[STEPS * B_LANES];
#pragma unroll
        for (uint i = 0; i < M_TILES; i += 2) {
            const float4 p = row < SEG ? *(local const float4 *)(even + 16 * i) : (float4)(0.0f);
            const float4 q =
                next_row < SEG ? *(local const float4 *)(odd + 16 * i) : (float4)(0.0f);
            sum[i] = (float4)(p.x, q.x, p.y, q.y);
            sum[i + 1] = (float4)(p.z, q.z, p.w, q.w);
        }
        UNROLLED(s, STEPS)
            FOR_MMA(u, B_LANES)
                b[s * B_LANES + u] = round_step(value + u * EACH + MMA_EACH * s);
        read_entries(list + min(e + 8, (uint)LIST - 8), x, lane, value);
        UNROLLED(s, STEPS)
            mma_tiles(sum, a + s * M_TILES * A_LANES, b + s * B_LANES);
#pragma unroll
        for (uint i = 0; i < M_TILES; i += 2) {
            const float4 low = sum[i], high = sum[i + 1];
            if (row < SEG)
                *(local float4 *)(even + 16 * i) = (float4)(low.x, low.z, high.x, high.z);
            if (next_row < SEG)
                *(local float4 *)(odd + 16 * i) = (float4)(low.y, low.w, high.y, high.w);
        }
    }
}

/* Columns c .. c + DYV - 1 of output o into local memory. */
static inline void write_dy(local uint *dy_tile, const uint c, const uint o, const dy_run d)
{
    const float *column = (const float *)&d;
    UNROLLED(v, DYV)
#if PRECISION == 1
        dy_tile[COLUMN(c + v) + o] = mma_round(column[v]);
#else
        ((local ushort *)(dy_tile + COLUMN(c + v)))[o] = (ushort)mma_round(column[v]);
#endif
}

KERNEL_OF(LOCAL) bspmm_nt_mma(NT_PARAMETERS)
{
    local float4 sum_vectors[TEAMS * SEG * SUM_PITCH / 4]; /* as vectors, for their alignment */
    local uint4 dy_vectors[(DEPTH * PANEL_WORDS + 32) / 4];
    local uint2 list[2][TEAMS][LIST];
    local uint count[2][TEAMS];
    const uint me = get_local_id(0) % LOCAL, lane = me % LANES, team = me / LANES;
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    const uint first_output = GROUP_PANEL * PANEL;
    const uint last_output = (uint)min((ulong)PANEL, outputs - first_output) - 1;
    const uint segment = GROUP_TILES * TEAMS + team;
    uint n = (uint)(split * batch / splits), j = 0, offset = 0; /* the run that is read */
    const uint steps = ((uint)((split + 1) * batch / splits) - n) * (uint)block_cols * (BC / CT);
    global const uint *bounds =
        starts + starts_offset + (n * segments + segment) * (block_cols + 1);
    uint begin = 0, end = 0; /* of the list of the run that is read */
    if (segment < segments)
        begin = bounds[0], end = bounds[1];
    local float *sums = (local float *)sum_vectors + team * SEG * SUM_PITCH;
    local uint *dy_tile = (local uint *)dy_vectors;
    for (uint i = lane; i < SEG * SUM_PITCH; i += LANES)
        sums[i] = 0.0f;
    for (uint c = CT; c < DEPTH; c++)
        for (uint i = me; i < PANEL_WORDS; i += LOCAL)
            dy_tile[COLUMN(c) + i] = 0;
    uint4 a[STEPS * M_TILES * A_LANES];
    values += values_offset;
    global const float *x = values; /* of the run that is multiplied */

    for (uint step = 0; step <= steps; step++) {
        const uint now = step % 2;
        dy_run dy_read[DY_READS];
        uint2 entry_read[LIST_READS];
        global const float *x_read = values + n * keep * BR * BC + offset;
        if (step < steps) {
            if (lane == 0)
                count[now][team] = end - begin;
            read_list(entry_read, entries + entries_offset + n * keep * BR, begin, end, lane);
            UNROLLED(k, DY_READS) {
                const uint i = me + k * LOCAL, o = min(i / RUNS, last_output);
                dy_read[k] = read_dy(ROW(dy, n * outputs + first_output + o),
                    (ulong)j * BC + offset + i % RUNS * DYV, cols);
            }
            next_run(&n, &j, &offset, &bounds, &begin, &end, block_cols, segments,
                segment < segments && step + 1 < steps);
        }
        if (step > 0)
            multiply(list[1 - now][team], count[1 - now][team], a, x, lane, sums);
        if (step < steps) {
            x = x_read;
            write_list(list[now][team], entry_read, lane);
            UNROLLED(k, DY_READS) {
                const uint i = me + k * LOCAL;
                if (i < PANEL * RUNS)
                    write_dy(dy_tile, i % RUNS * DYV, i / RUNS, dy_read[k]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLLED(s, STEPS)
            FOR_MMA(t, A_LANES) {
                uint row[MMA_EACH];
                UNROLLED(i, MMA_EACH)
                    row[i] = COLUMN(EACH * (A_LANE(lane, t) % 4) + MMA_EACH * s + i);
                gather(dy_tile, row, A_LANE(lane, t), a + s * M_TILES * A_LANES + t);
            }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    partial += NT_PARTIAL + (ulong)segment * SEG * PANEL;
    for (uint i = 4 * lane; i < SEG * PANEL; i += 4 * LANES)
        if ((ulong)segment * SEG + i / PANEL < rows)
            *(global float4 *)(partial + i) =
                *(local const float4 *)(sums + i / PANEL * SUM_PITCH + i % PANEL);
}
