/* BSpMM tn for CPUs: partial sums of dy_n^T * xs_n, compacted along the reduction.
 *
 *     partial[split][P][c][i] = sum over the samples n of `split` and the rows t that keep column c
 *                               of  dy[n * rows + t][P * PANEL + i] * xs_n[t][c]
 *
 * P counts panels of PANEL = 16 * V outputs, c runs over the padded columns block_cols * BC.
 *
 *       dy_n, SEG rows            xs_n, block column j           partial
 *     +----+------+-----+        +-----+----+-----+          +------------------+
 *     |    |panel |     |   t -> |     |kept|     |          | CB x PANEL tile  |  in registers
 *     |    |(local|     |   t'-> |     |kept|     |          +------------------+
 *     +----+------+-----+        +-----+----+-----+
 *
 * One work-item a group; group (P, split). It copies the panel of dy to local memory once per segment
 * and reuses it for every block column: only surviving rows are multiplied, so the work falls by
 * exactly the sparsity, at any block size. CB columns of a block are worked on at a time; vectors run
 * along the outputs, so narrow blocks are as fast as wide ones.
 *
 * The values of a column lie scattered over the sample, so they are prefetched.
 *
 * Local memory: SEG * PANEL * 4 bytes. CB divides BC, CB * V <= 24 accumulators. V: 1 to 8. */
#if !defined(V) || !defined(CB) || !defined(BC) || !defined(BR) || !defined(SEG)
#error "bspmm_tn_vector.cl needs V, CB, BC, BR and SEG"
#endif
#if BC % CB != 0
#error "CB must divide BC"
#endif
#define PANEL (16 * V)
#define AHEAD 16 /* rows between a prefetch and its use: the latency of the last-level cache */

/* local panel[r][i] = dy[row + r][first + i], zero beyond the last output. */
inline void load_panel(local float *panel, global const float *dy, const ulong ld,
    const ulong count, const ulong outputs)
{
    for (ulong r = 0; r < count; r++) {
        global const float *from = dy + r * ld;
        local float *to = panel + r * PANEL;
        if (outputs >= PANEL) {
#pragma unroll
            for (int v = 0; v < V; v++)
                vstore16(vload16(v, from), v, to);
        } else {
            for (ulong i = 0; i < PANEL; i++)
                to[i] = i < outputs ? from[i] : 0.0f;
        }
    }
}

/* tile += the products of the rows in [begin, end). */
inline void multiply_rows(global const uint2 *entries, const uint begin, const uint end,
    local const float *panel, global const float *x, global float *tile)
{
    float16 sum[CB][V];
#pragma unroll
    for (int c = 0; c < CB; c++)
#pragma unroll
        for (int v = 0; v < V; v++)
            sum[c][v] = vload16(c * V + v, tile);
    for (uint e = begin; e < end; e++) {
        const uint2 entry = entries[e];
        PREFETCH(x + (ulong)entries[min(e + AHEAD, end - 1)].y * BC);
        local const float *dy_row = panel + entry.x * PANEL;
        global const float *x_row = x + (ulong)entry.y * BC;
        float16 d[V];
#pragma unroll
        for (int v = 0; v < V; v++)
            d[v] = vload16(v, dy_row);
#pragma unroll
        for (int c = 0; c < CB; c++)
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[c][v] = fma((float16)(x_row[c]), d[v], sum[c][v]);
    }
#pragma unroll
    for (int c = 0; c < CB; c++)
#pragma unroll
        for (int v = 0; v < V; v++)
            STORE16(sum[c][v], tile + 16 * (c * V + v));
}

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void bspmm_tn_vector(const ulong batch,
    const ulong rows, const ulong outputs, const ulong block_cols, const ulong segments,
    const ulong keep, MAT_IN_RESTRICT(dy), global const float *restrict values,
    const ulong starts_offset, global const uint *restrict starts, const ulong entries_offset,
    global const uint2 *restrict entries, const ulong partial_offset,
    global float *restrict partial)
{
    local float16 panel_vectors[SEG * V]; /* as vectors, for their alignment */
    local float *panel = (local float *)panel_vectors;
    const ulong first_output = get_group_id(0) * PANEL;
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    starts += starts_offset;
    entries += entries_offset;
    partial += partial_offset + (split * get_num_groups(0) + get_group_id(0)) * block_cols * BC * PANEL;
    for (ulong i = 0; i < block_cols * BC * V; i++)
        vstore16((float16)(0.0f), i, partial);

    for (ulong n = split * batch / splits; n < (split + 1) * batch / splits; n++) {
        global const uint2 *sample_entries = entries + n * keep * BR;
        global const float *x = values + n * keep * BR * BC;
        for (ulong s = 0; s < segments; s++) {
            load_panel(panel, ROW(dy, n * rows + s * SEG) + first_output, dy_ld,
                min((ulong)SEG, rows - s * SEG), outputs - first_output);
            global const uint *column_start = starts + (n * segments + s) * (block_cols + 1);
            for (ulong j = 0; j < block_cols; j++) {
                const uint begin = column_start[j], end = column_start[j + 1];
                if (begin == end)
                    continue;
                for (uint c = 0; c < BC; c += CB)
                    multiply_rows(sample_entries, begin, end, panel, x + c,
                        partial + (j * BC + c) * PANEL);
            }
        }
    }
}
