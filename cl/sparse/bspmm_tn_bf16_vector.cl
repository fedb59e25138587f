/* BSpMM tn for CPUs in bf16: as bspmm_tn_vector.cl, with dy and xs rounded to bf16 and sums in fp32.
 *
 *     partial[split][P][c][i] = sum over the samples n of `split` and the rows t that keep column c
 *                               of  dy[n * rows + t][P * PANEL + i] * xs_n[t][c]
 *
 * The kept rows of a list come in pairs (bspmm_index_pairs.cl): the words of xs lie in order, and the words of dy are
 * made in registers, from two rows of the panel. The panel has bf16 rows (round_row of pairs.clh), and behind
 * SEG of them a row of zeros, the partner of an odd list's last row. Groups, panels and segments are those of
 * bspmm_tn_vector.cl.
 *
 * With AMX, 1 or 2, lists are multiplied by tiles (list_amx.clh): CB is 16.
 *
 * With FETCH words are prefetched, for samples whose words leave the caches before the next panel.
 *
 * Local memory: (SEG + 1) * PANEL * 2 bytes, with AMX plus (SEG / 32 + 9) KiB. CB divides BC, CB * V accumulators. V: 2, 4, 6 or 8. FETCH: 0 or 1. */
#include "prelude/pair_rows.clh"
#ifndef AMX
#define AMX 0
#endif
#if AMX
#include "amx/list_amx.clh"
#endif
#if !defined(BC) || !defined(SEG)
#error "bspmm_tn_bf16_vector.cl needs BC and SEG"
#endif
#if BC % CB != 0 || V % 2 != 0
#error "CB must divide BC, and 2 V"
#endif

/* The pairs of a segment: list j has the entries starts[j] to starts[j + 1], and is list first_list + j of its
 * sample, whose pairs are rows and words. A fresh segment is the first of a split. */
typedef struct segment {
    bool fresh;
    ulong first_list;
    global const uint *starts;
    global const uint2 *rows;
    global const uint *words;
} segment;

/* As multiply_columns of bspmm_tn_vector.cl. */
static inline void multiply_columns(local const uint *panel, const segment s, const ulong block_cols,
    global const float *next, const ulong dy_ld, const uint next_rows, global float *tiles IF(AMX)(COMMA local uint *of_list))
{
    for (ulong j = 0; j < block_cols; j++) {
        const uint begin = s.starts[j], count = s.starts[j + 1] - begin;
        if (count == 0 && !s.fresh)
            continue;
        const ulong slot = (begin + s.first_list + j) / 2;
        for (uint c = 0; c < BC; c += CB, next += next_rows * dy_ld) {
            global float *tile = tiles + (j * BC + c) * PANEL;
            fetch_rows(next, dy_ld, next_rows, PANEL);
#if AMX
            multiply_list(tile, s.fresh, s.rows + slot, s.words + slot * BC + c, (count + 1) / 2, panel, 0, of_list);
#else
            float16 sum[CB][V];
            load_tile(sum, tile, s.fresh);
            add_row_pairs(sum, s.rows + slot, s.words + slot * BC + c, (count + 1) / 2, panel, 0);
            store_tile(sum, tile);
#endif
        }
    }
}

KERNEL_OF(1) bspmm_tn_bf16(const ulong batch, const ulong rows, const ulong outputs,
    const ulong block_cols, const ulong segment_rows, const ulong segments, const ulong slots,
    const ulong panels, const ulong panel_run, MAT_IN_RESTRICT(dy), REGION_IN(uint, starts),
    REGION_IN(uint2, kept), REGION_IN(uint, words), REGION_OUT(float, partial))
{
    LOCAL_FLOATS(panel_floats, (SEG + 1) * ROW_WORDS);
    local uint *panel = (local uint *)panel_floats;
    const share mine = share_of_group(batch, panels, panel_run);
    const ulong panel_size = block_cols * BC * PANEL;
    const uint next_rows = (uint)((segment_rows * CB + block_cols * BC - 1) / (block_cols * BC));
    starts += starts_offset;
    partial += partial_offset + get_group_id(1) * panels * panel_size;
    clear_last_row(panel);
    IF(AMX)(LOCAL_FLOATS(of_list, LIST_FLOATS); amx_begin();)

    for (ulong n = mine.first; n < mine.end; n++)
        for (ulong s = 0; s < segments; s++) {
            const uint height = (uint)min(segment_rows, rows - s * segment_rows);
            const segment now = {n == mine.first && s == 0, s * block_cols,
                starts + (n * segments + s) * (block_cols + 1), kept + kept_offset + n * slots,
                words + words_offset + n * slots * BC};
            global const float *top = ROW(dy, n * rows + s * segment_rows);
            for (ulong p = mine.first_panel; p < mine.end_panel; p++) {
                const bool more = p + 1 < mine.end_panel; /* else the first panel of the next rows */
                global const float *next =
                    more ? top + (p + 1) * PANEL : top + height * dy_ld + mine.first_panel * PANEL;
                const uint width = (uint)min((ulong)PANEL, outputs - p * PANEL);
                for (uint r = 0; r < height; r++)
                    pack_row(panel + r * ROW_WORDS, top + r * dy_ld + p * PANEL, width);
                multiply_columns(
                    panel, now, block_cols, next, dy_ld, next_rows, partial + p * panel_size IF(AMX)(COMMA (local uint *)of_list));
            }
        }
    IF(AMX)(amx_end();)
}
