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
 * A segment has `segment_rows` rows, an argument of at most SEG, so that one program serves every number of
 * rows.
 *
 * Local memory: SEG * PANEL * 4 bytes. CB divides BC, CB * V accumulators. V: 1 to 8. */
#include "prelude/panel.clh"
#include "prelude/partial_tile.clh"
#if !defined(BC) || !defined(BR) || !defined(SEG) || !defined(AHEAD)
#error "bspmm_tn_vector.cl needs BC, BR, SEG and AHEAD"
#endif
#if BC % CB != 0
#error "CB must divide BC"
#endif

/* The lists of a segment: entries column_start[j] to column_start[j + 1] have the kept rows of block column j.
 * x: the sample's values. A fresh segment is the first of a split. */
typedef struct segment {
    uint height;
    bool fresh;
    global const uint *column_start;
    global const uint2 *entries;
    global const float *x;
} segment;

/* panel[r][i] = dy[r][i] for the segment's rows, zero beyond the last output. */
static inline void copy_panel(
    local float *panel, global const float *dy, const ulong ld, const uint height, const ulong outputs)
{
    for (uint r = 0; r < height; r++, dy += ld, panel += PANEL)
        copy_outputs(panel, dy, (uint)min((ulong)PANEL, outputs));
}

/* tiles[c] += the panel times column c of xs, for all columns. Meanwhile the panel `next` is prefetched, so
 * many rows with each tile. */
static inline void multiply_columns(local const float *panel, const segment s, const ulong block_cols,
    global const float *next, const ulong dy_ld, const uint next_rows, global float *tiles)
{
    for (ulong j = 0; j < block_cols; j++) {
        const uint begin = s.column_start[j], count = s.column_start[j + 1] - begin;
        if (count == 0 && !s.fresh)
            continue;
        for (uint c = 0; c < BC; c += CB, next += next_rows * dy_ld) {
            global float *tile = tiles + (j * BC + c) * PANEL;
            float16 sum[CB][V];
            fetch_rows(next, dy_ld, next_rows, PANEL);
            load_tile(sum, tile, s.fresh);
            add_entries(sum, s.entries + begin, count, c % LINE < CB, panel, s.x + c);
            store_tile(sum, tile);
        }
    }
}

KERNEL_OF(1) bspmm_tn_vector(const ulong batch, const ulong rows, const ulong outputs,
    const ulong block_cols, const ulong segment_rows, const ulong segments, const ulong keep,
    const ulong panels, const ulong panel_run, MAT_IN_RESTRICT(dy), REGION_IN(float, values),
    REGION_IN(uint, starts), REGION_IN(uint2, entries), REGION_OUT(float, partial))
{
    LOCAL_FLOATS(panel, SEG * PANEL);
    const share mine = share_of_group(batch, panels, panel_run);
    const ulong panel_size = block_cols * BC * PANEL;
    const uint next_rows = (uint)((segment_rows * CB + block_cols * BC - 1) / (block_cols * BC));
    values += values_offset;
    starts += starts_offset;
    entries += entries_offset;
    partial += partial_offset + get_group_id(1) * panels * panel_size;

    for (ulong n = mine.first; n < mine.end; n++)
        for (ulong s = 0; s < segments; s++) {
            const uint height = (uint)min(segment_rows, rows - s * segment_rows);
            const segment now = {height, n == mine.first && s == 0,
                starts + (n * segments + s) * (block_cols + 1), entries + n * keep * BR,
                values + n * keep * BR * BC};
            global const float *top = ROW(dy, n * rows + s * segment_rows);
            for (ulong p = mine.first_panel; p < mine.end_panel; p++) {
                const bool more = p + 1 < mine.end_panel; /* else the first panel of the next rows */
                global const float *next =
                    more ? top + (p + 1) * PANEL : top + height * dy_ld + mine.first_panel * PANEL;
                copy_panel(panel, top + p * PANEL, dy_ld, height, outputs - p * PANEL);
                multiply_columns(
                    panel, now, block_cols, next, dy_ld, next_rows, partial + p * panel_size);
            }
        }
}
