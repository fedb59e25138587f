/* Packs the weights of a convolution for conv_vector.cl as pairs of channels, rounded to bf16 (pairs.clh).
 *
 *     to[P][(t * pairs + c)][i] = the pair of w_t[2 c][P * PANEL + i] and w_t[2 c + 1][P * PANEL + i]
 *
 * with pairs = (k + 1) / 2, tap t and w_t as in conv_vector.cl; zero for results from n on, and for channel k.
 * One work-item a group; group (P, t) writes tap t of panel P, and group (0, 0) also `zeros` zeros behind the
 * last panel. Local memory: 1 KiB. PANEL: a multiple of 16. BACK: 0 or 1. */
#include "prelude/pairs.clh"
#if !defined(PANEL) || !defined(BACK)
#error "conv_weights_bf16.cl needs PANEL and BACK"
#endif

KERNEL_OF(1) conv_weights_bf16(const uint n, const uint k, const uint taps, const uint taps_x,
    const uint kernel_width, const uint weight_y, const uint weight_x, const uint weight_step_y,
    const uint weight_step_x, const uint zeros, MAT_IN_RESTRICT(w), REGION_OUT(uint, to))
{
    const uint column = (uint)get_group_id(0) * PANEL, t = (uint)get_group_id(1), pairs = (k + 1) / 2;
    const ulong tap = (weight_y + t / taps_x * weight_step_y) * kernel_width + weight_x +
                      t % taps_x * weight_step_x;
    to += to_offset;
    if (column == 0 && t == 0)
        for (uint i = 0; i < zeros; i++)
            to[get_num_groups(0) * pairs * taps * PANEL + i] = 0;
    to += (get_group_id(0) * taps + t) * pairs * PANEL;
#if !BACK
    LOCAL_FLOATS(tile, 16 * 16);
    for (uint j = 0; j < PANEL; j += 16)
        for (uint c = 0; c < k; c += 32) {
            float16 row[16];
            UNROLLED(i, 16) {
                const uint o = column + j + i, deep = o < n ? k : 0;
                global const float *from = ROW(w, min(o, n - 1)) + tap * k + c;
                row[i] = as_float16(round_first32(from, left_of(deep, c)));
            }
            store_transposed16(row, tile, 16);
            for (uint i = 0; i < min(16u, pairs - c / 2); i++)
                *(global uint16_anywhere *)(to + (c / 2 + i) * PANEL + j) = as_uint16(vload16(i, tile));
        }
#else
    for (uint c = 0; c < k; c += 2)
        for (uint j = 0; j < PANEL; j += 16) {
            const uint inside = left_of(n, column + j);
            global const float *from = ROW(w, c) + tap * n + column + j;
            const float16 low = first16(from, inside);
            const float16 high = first16(from + w_ld, c + 1 < k ? inside : 0);
            *(global uint16_anywhere *)(to + c / 2 * PANEL + j) = round_pairs(low, high);
        }
#endif
}
