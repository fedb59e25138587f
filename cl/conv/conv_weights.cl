/* Packs the weights of a convolution for conv_strip_vector.cl and conv_vector.cl.
 *
 *     to[P][c * channel_step + t * tap_step][i] = w[j][tap(t) * k + c], j = P * PANEL + i; 0 where j >= n;
 *                                        with BACK w[c][tap(t) * n + j]
 *
 * tap(t) as in conv_vector.cl. One work-item a group; group (P, t) writes tap t of panel P, and group (0, 0)
 * also `zeros` zeros behind the last panel. Local memory: 1 KiB. PANEL: a multiple of 16. BACK: 0 or 1. With BF16 weights
 * are rounded. */
#include "prelude/operand.clh"
#if !defined(PANEL) || !defined(BACK)
#error "conv_weights.cl needs PANEL and BACK"
#endif

KERNEL_OF(1) conv_weights(const uint n, const uint k, const uint taps, const uint taps_x,
    const uint kernel_width, const uint weight_y, const uint weight_x, const uint weight_step_y,
    const uint weight_step_x, const uint channel_step, const uint tap_step, const uint zeros,
    MAT_IN_RESTRICT(w), REGION_OUT(float, to))
{
    LOCAL_FLOATS(tile, 16 * 16);
    const uint column = (uint)get_group_id(0) * PANEL, t = (uint)get_group_id(1);
    const uint tap = (weight_y + t / taps_x * weight_step_y) * kernel_width + weight_x +
                     t % taps_x * weight_step_x;
    const ulong step = (ulong)channel_step * PANEL; /* from channel to channel */
    to += to_offset;
    if (column == 0 && t == 0)
        for (uint i = 0; i < zeros; i++)
            to[get_num_groups(0) * k * taps * PANEL + i] = 0.0f;
    to += (get_group_id(0) * k * taps + (ulong)t * tap_step) * PANEL;
    for (uint j = 0; j < PANEL; j += 16) {
        const uint inside = min(n - min(n, column + j), 16u);
        uint c = 0;
#if !BACK
        global const float *from = ROW(w, min(column + j, n - 1)) + (ulong)tap * k;
        for (; inside == 16 && c + 16 <= k; c += 16) {
            transpose16(from + c, w_ld, tile, 16);
            for (uint i = 0; i < 16; i++)
                STORE16(ROUND16(vload16(i, tile)), to + (c + i) * step + j);
        }
#else
        for (; inside == 16 && c < k; c++)
            STORE16(ROUND16(LOAD16(ROW(w, c) + (ulong)tap * n + column + j)), to + c * step + j);
#endif
        for (; c < k; c++)
            for (uint i = 0; i < 16; i++) {
                const uint o = column + j + i;
                to[c * step + j + i] = i >= inside ? 0.0f
                                       : BACK      ? ROUND(AT(w, c, (ulong)tap * n + o))
                                                   : ROUND(AT(w, o, (ulong)tap * k + c));
            }
    }
}
