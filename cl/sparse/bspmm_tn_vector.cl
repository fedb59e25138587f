/* BSpMM tn for CPUs: partial sums of dy_n^T * xs_n, compacted along the reduction.
 *
 *     partial[split][P][c][i] = sum over the samples n of `split` and the rows t that keep column c
 *                               of  dy[n * rows + t][P * PANEL + i] * xs_n[t][c]
 *
 * P counts panels of PANEL = 16 * V outputs, c runs over the padded columns block_cols * BC.
 *
 *       dy_n, `segment` rows      xs_n, block column j           partial
 *     +----+------+-----+        +-----+----+-----+          +------------------+
 *     |    |panel |     |   t -> |     |kept|     |          | CB x PANEL tile  |  in registers
 *     |    |(local|     |   t'-> |     |kept|     |          +------------------+
 *     +----+------+-----+        +-----+----+-----+
 *
 * One work-item a group; group (g, split) takes the panels [g * panel_run, (g + 1) * panel_run). It goes
 * through all of them segment by segment, so that values and cache lines of dy that panels share are still
 * cached. It copies the panel of dy to local memory once per segment and uses it for every block column.
 * Only kept rows are multiplied, so the work falls by exactly the sparsity, at any block size. A tile has
 * CB columns of a block; vectors run along the outputs, so narrow blocks are as fast as wide ones.
 *
 * The values of a column are scattered over the sample, and the rows of the next panel lie far apart:
 * both are prefetched. `entries` has AHEAD elements behind the last entry.
 *
 * A segment has `segment` rows, an argument of at most SEG, so that one program serves every number of rows.
 *
 * Local memory: SEG * PANEL * 4 bytes. CB divides BC, CB * V accumulators. V: 1 to 8. */
#include "prelude/panel.clh"
#if !defined(V) || !defined(CB) || !defined(BC) || !defined(BR) || !defined(SEG) || !defined(AHEAD)
#error "bspmm_tn_vector.cl needs V, CB, BC, BR, SEG and AHEAD"
#endif
#if BC % CB != 0
#error "CB must divide BC"
#endif
#define PANEL (16 * V)
#define LINE 16 /* floats of a cache line */

/* local panel[r][i] = dy[r][i] for `count` rows, zero beyond the last output. */
static inline void load_panel(local float *panel, global const float *dy, const ulong ld,
    const uint count, const ulong outputs)
{
    const uint inside = (uint)min((ulong)PANEL, outputs);
    copy_rows(panel, PANEL, dy, ld, count, inside);
    for (uint r = 0; r < count && inside < PANEL; r++)
        for (uint i = inside; i < PANEL; i++)
            panel[r * PANEL + i] = 0.0f;
}

/* tile += the products of `count` rows; a fresh tile starts from zero. With `fetch`, each row prefetches
 * the values of the row AHEAD places later. */
static inline void multiply_rows(global const uint2 *entries, const uint count, const bool fresh,
    const bool fetch, local const float *panel, global const float *x, global float *tile)
{
    /* Read as scalars, because both are used as addresses. */
    global const uint *entry = (global const uint *)entries, *end = entry + 2 * (ulong)count;
    float16 sum[CB][V];
#pragma unroll
    for (int c = 0; c < CB; c++)
#pragma unroll
        for (int v = 0; v < V; v++)
            sum[c][v] = fresh ? (float16)(0.0f) : vload16(c * V + v, tile);
    for (; entry < end; entry += 2) {
        if (fetch)
            PREFETCH(x + (ulong)entry[2 * AHEAD + 1] * BC);
        local const float *dy_row = panel + (ulong)entry[0] * PANEL;
        global const float *x_row = x + (ulong)entry[1] * BC;
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
    const ulong rows, const ulong outputs, const ulong block_cols, const ulong segment,
    const ulong segments, const ulong keep, const ulong panels, const ulong panel_run, MAT_IN_RESTRICT(dy),
    const ulong values_offset, global const float *restrict values, const ulong starts_offset,
    global const uint *restrict starts, const ulong entries_offset,
    global const uint2 *restrict entries, const ulong partial_offset,
    global float *restrict partial)
{
    local float16 panel_vectors[SEG * V]; /* as vectors, for their alignment */
    local float *panel = (local float *)panel_vectors;
    const ulong first_panel = get_group_id(0) * panel_run;
    const ulong end_panel = min(first_panel + panel_run, panels);
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    const ulong first_sample = split * batch / splits, end_sample = (split + 1) * batch / splits;
    const ulong panel_size = block_cols * BC * PANEL;
    const uint fetch_rows = (uint)((segment * CB + block_cols * BC - 1) / (block_cols * BC));
    values += values_offset;
    starts += starts_offset;
    entries += entries_offset;
    partial += partial_offset + split * panels * panel_size;

    for (ulong n = first_sample; n < end_sample; n++) {
        global const float *x = values + n * keep * BR * BC;
        for (ulong s = 0; s < segments; s++) {
            const bool fresh = n == first_sample && s == 0;
            const uint height = (uint)min(segment, rows - s * segment);
            global const uint *column_start = starts + (n * segments + s) * (block_cols + 1);
            global const float *top = ROW(dy, n * rows + s * segment);
            for (ulong p = first_panel; p < end_panel; p++) {
                load_panel(panel, top + p * PANEL, dy_ld, height, outputs - p * PANEL);
                global const float *next = top + (p + 1) * PANEL;
                if (p + 1 == end_panel) /* then the first panel of the next rows */
                    next = top + height * dy_ld + first_panel * PANEL;
                for (ulong j = 0; j < block_cols; j++) {
                    const uint begin = column_start[j], count = column_start[j + 1] - begin;
                    if (count == 0 && !fresh)
                        continue;
                    for (uint c = 0; c < BC; c += CB) {
                        for (uint i = 0; i < fetch_rows; i++, next += dy_ld)
#pragma unroll
                            for (int v = 0; v < V; v++)
                                PREFETCH_FAR(next + v * LINE);
                        multiply_rows(entries + n * keep * BR + begin, count, fresh,
                            c % LINE < CB, panel, x + c,
                            partial + p * panel_size + (j * BC + c) * PANEL);
                    }
                }
            }
        }
    }
}
