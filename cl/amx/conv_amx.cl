/* conv_vector.cl by AMX: the same product, of pairs of bf16, with tiles of amx.clh. k, words of a tap, is a multiple of 16.
 *
 * Group (R, g) takes the panels [g * panel_run, (g + 1) * panel_run) of the pixels [R * rows, (R + 1) * rows), which are
 * numbered image by image, row by row. It packs the words that its pixels have under `run` taps, tiles of 16 x 16 one behind
 * the other, and multiplies them by panel after panel of w; from the second run of taps on, sums are added to `to`. A tap
 * that lies in the padding for all 32 pixels of a tile is skipped. Packed weights have panels of WP words, PANEL at least.
 *
 * Local memory: MC * (KW + 2) words, and 64 bits for each tile. rows <= MC, 32 divides MC; run * k <= KW, run <= 64. */
#include "conv/pixels.clh"
#include "amx/amx.clh"
#include "prelude/product_tile.clh"
#if !defined(MC) || !defined(KW) || !defined(WP)
#error "conv_amx.cl needs MC, KW and WP"
#endif

/* The taps [begin, begin + count), and the pixels of a group. */
typedef struct part {
    uint begin, count, rows;
    ulong first;
} part;

/* a[r]: the words of pixel r under the part's taps, zeros outside of the image and from `rows` on; results[r]: the place of
 * its result; reach[r / 32]: the taps that a pixel of a tile has inside of the image. */
static inline void pack_pixels(local uint *a, local ulong *results, local ulong *reach, const part p, const gather g,
    const uint k, global const uint *from, const ulong ld, const ulong to_ld)
{
    pixel at = pixel_of(p.first, g.grid_height, g.grid_width);
    for (uint r = 0; r < (p.rows + 31) / 32 * 32; r++) {
        const int y = (int)(at.u * g.step_y) + g.first_y, x = (int)(at.v * g.step_x) + g.first_x;
        global const uint *image = from + at.image * g.source_height * g.source_width * ld;
        local uint *to = a + r / 16 * (16 * KW) + r % 16 * 16;
        ulong taps = 0;
        for (uint t = 0; t < p.count; t++) {
            const uint i = (uint)(y + (int)((p.begin + t) / g.taps_x) * g.tap_step_y);
            const uint j = (uint)(x + (int)((p.begin + t) % g.taps_x) * g.tap_step_x);
            const bool inside = r < p.rows && i < g.source_height && j < g.source_width;
            global const uint *source = image + (inside ? ((ulong)i * g.source_width + j) * ld : 0);
            taps |= (ulong)inside << t;
            for (uint c = 0; c < k; c += 16, to += AMX_TILE)
                *(local uint16 *)to = inside ? *(global const uint16_anywhere *)(source + c) : (uint16)(0u);
        }
        reach[r / 32] = r % 32 == 0 ? taps : reach[r / 32] | taps;
        results[r] = result_pixel(g, at.image, at.u, at.v) * to_ld;
        if (r + 1 < p.rows)
            at = pixel_after(at, 1, g.grid_height, g.grid_width);
    }
}

KERNEL_OF(1) conv_amx(const ulong rows_all, const ulong rows, const ulong panel_run, const uint n,
    const uint k, const uint taps, const uint run, GATHER_PARAMETERS, const float beta,
    const uint has_bias, MAT_IN_RESTRICT(from), REGION_IN(uint, w), MAT_IN_RESTRICT(bias),
    MAT_OUT_RESTRICT(to))
{
    LOCAL_FLOATS(a_floats, MC * KW);
    local ulong results[MC], reach[MC / 32];
    local uint *a = (local uint *)a_floats;
    const uint first_panel = (uint)(get_group_id(1) * panel_run);
    const uint end_panel = (uint)min(first_panel + panel_run, ((ulong)n + PANEL - 1) / PANEL);
    const gather g = GATHER;
    part p = {0, 0, 0, get_group_id(0) * rows};
    p.rows = (uint)min(rows, rows_all - p.first);
    w += w_offset;
    amx_begin();
    for (; p.begin == 0 || p.begin < taps; p.begin += run) {
        const float old = p.begin == 0 ? beta : 1.0f;
        p.count = min(run, taps - p.begin);
        pack_pixels(a, results, reach, p, g, k, (global const uint *)ROW(from, 0), from_ld, to_ld);
        for (uint panel = first_panel; panel < end_panel; panel++) {
            const uint column = panel * PANEL;
            const tile_bias of_columns = {p.begin == 0 && has_bias ? ROW(bias, 0) + column : 0, false};
            for (uint r = 0; r < p.rows; r += AMX_ROWS) {
                local const uint *tile = a + r * KW;
                global const uint *weights = w + ((ulong)(column / WP) * taps + p.begin) * k * WP + column % WP;
                float16 sum[MR][V];
                global float *place[MR];
                for (uint i = 0; i < MR; i++)
                    place[i] = ROW(to, 0) + results[r + i] + column;
                amx_zero(sum);
                for (uint t = 0; t < p.count; t++, tile += k * 16, weights += k * WP)
                    if (reach[r / 32] >> t & 1)
                        for (uint c = 0; c < k; c += AMX_PAIRS)
                            amx_step_of_global(sum, tile + c * 16, 16 * KW, weights + c * WP, WP);
                amx_store(sum);
                finish_tile(sum, place, min((uint)MR, p.rows - r), min((uint)PANEL, n - column), 1.0f, old, of_columns);
            }
        }
    }
    amx_end();
}
