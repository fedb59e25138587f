/* BSpMM tn for GPUs: the same partial sums as bspmm_tn_vector.cl, with PANEL = 64 outputs.
 *
 * Group (P, j * chunks + q, split) computes the tile of PANEL outputs x CT columns that starts at
 * column j * BC + q * CT, over the samples of `split`. 64 work-items: work-item (u, v) holds outputs
 * 4u .. 4u + 3 and columns v, v + 4, ... of the tile. Surviving rows are gathered BATCH at a time:
 *
 *     local dy_tile[BATCH][PANEL]  <- dy rows of the entries      (coalesced along the outputs)
 *     local x_tile [BATCH][CT]     <- values of the entries
 *     barrier, BATCH rank-1 updates of the register tile, barrier
 *
 * Local memory: BATCH * (PANEL + CT) * 4 + BATCH * 8 bytes. CT: 1 to 16. */
#if !defined(BC) || !defined(BR) || !defined(SEG) || !defined(CT)
#error "bspmm_tn_tiled.cl needs BC, BR, SEG and CT"
#endif
#define LOCAL  64
#define PANEL  64
#define BATCH  16
#define CHUNKS ((BC + CT - 1) / CT)
#define NC     ((CT + 3) / 4) /* columns of a work-item */

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bspmm_tn_tiled(const ulong batch,
    const ulong rows, const ulong outputs, const ulong block_cols, const ulong segments,
    const ulong keep, MAT_IN_RESTRICT(dy), global const float *restrict values,
    const ulong starts_offset, global const uint *restrict starts, const ulong entries_offset,
    global const uint2 *restrict entries, const ulong partial_offset,
    global float *restrict partial)
{
    local float dy_tile[BATCH][PANEL];
    local float x_tile[BATCH][CT];
    local uint2 batch_entry[BATCH];
    const uint me = get_local_id(0), u = me % 16, v = me / 16;
    const ulong first_output = get_group_id(0) * PANEL;
    const ulong j = get_group_id(1) / CHUNKS;
    const uint offset = (uint)(get_group_id(1) % CHUNKS) * CT; /* of the tile in its block */
    const ulong split = get_group_id(2), splits = get_num_groups(2);

    starts += starts_offset;
    entries += entries_offset;
    float4 sum[NC];
    for (int i = 0; i < NC; i++)
        sum[i] = (float4)(0.0f);
    for (ulong n = split * batch / splits; n < (split + 1) * batch / splits; n++)
        for (ulong s = 0; s < segments; s++) {
            global const uint *column_start = starts + (n * segments + s) * (block_cols + 1) + j;
            const uint end = column_start[1];
            const ulong first_row = n * rows + s * SEG;
            for (uint e = column_start[0]; e < end; e += BATCH) {
                const uint count = min((uint)BATCH, end - e);
                barrier(CLK_LOCAL_MEM_FENCE); /* the tiles of the last round are used up */
                if (me < count)
                    batch_entry[me] = entries[n * keep * BR + e + me];
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint r = 0; r < BATCH; r++) {
                    const bool inside = r < count && first_output + me < outputs;
                    dy_tile[r][me] =
                        inside ? AT(dy, first_row + batch_entry[r].x, first_output + me) : 0.0f;
                }
                for (uint i = me; i < BATCH * CT; i += LOCAL) {
                    const uint r = i / CT, c = i % CT;
                    x_tile[r][c] =
                        r < count && offset + c < BC
                            ? values[(n * keep * BR + batch_entry[r].y) * BC + offset + c]
                            : 0.0f;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint r = 0; r < BATCH; r++) {
                    const float4 d = vload4(u, dy_tile[r]);
                    for (int i = 0; i < NC; i++)
                        if (v + 4 * i < CT)
                            sum[i] = fma((float4)(x_tile[r][v + 4 * i]), d, sum[i]);
                }
            }
        }
    partial += partial_offset + (split * get_num_groups(0) + get_group_id(0)) * block_cols * BC * PANEL;
    for (int i = 0; i < NC; i++) {
        const uint c = v + 4 * i;
        if (c < CT && offset + c < BC)
            vstore4(sum[i], u, partial + (j * BC + offset + c) * PANEL);
    }
}
