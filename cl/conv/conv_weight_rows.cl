/* The weights of a convolution in rows for conv_tiled.cl, taps and channels side by side:
 *
 *     to[j][t * k + c] = w[j][tap(t) * k + c], with BACK w[c][tap(t) * n + j]; 0 from taps * k on
 *
 * tap(t) as in conv_vector.cl. Group j * ceil(to_ld / 32) + i writes 32 columns from 32 i on of 32 rows from 32 j on, by
 * way of a tile in local memory: with BACK, columns of it are read, and rows written. With BF16 1, `to` is of bf16. Local
 * memory: 4224 bytes. BACK: 0 or 1. */
#include "prelude/pairs.clh"
#if !defined(BACK)
#error "conv_weight_rows.cl needs BACK"
#endif
#define LOCAL 64
#define SIDE  32
#if defined(BF16) && BF16
typedef ushort weight;
#define WEIGHT(x) ((weight)round_pair(x, 0.0f))
#else
typedef float weight;
#define WEIGHT(x) (x)
#endif

KERNEL_OF(LOCAL) conv_weight_rows(const uint n, const uint k, const ulong terms, const uint taps_x,
    const uint kernel_width, const uint weight_y, const uint weight_x, const uint weight_step_y,
    const uint weight_step_x, MAT_IN_RESTRICT(w),
    global weight *restrict to_buffer, const ulong to_offset, const ulong to_ld)
{
    local float tile[SIDE * (SIDE + 1)];
    const uint group = (uint)get_group_id(0), across = (uint)((to_ld + SIDE - 1) / SIDE);
    const ulong first_term = (ulong)(group % across) * SIDE;
    const uint first = group / across * SIDE;
    const uint first_tap = (uint)(first_term / k), first_channel = (uint)(first_term % k);
    for (uint i = (uint)get_local_id(0); i < SIDE * SIDE; i += LOCAL) {
        const uint slow = i / SIDE, fast = i % SIDE;
        const uint row = BACK ? fast : slow, column = BACK ? slow : fast, j = first + row;
        float value = 0.0f;
        if (j < n && first_term + column < terms) {
            const uint behind = first_channel + column, t = first_tap + behind / k, c = behind % k;
            const ulong tap = (ulong)(weight_y + t / taps_x * weight_step_y) * kernel_width + weight_x +
                              t % taps_x * weight_step_x;
            value = BACK ? AT(w, c, tap * n + j) : AT(w, j, tap * k + c);
        }
        tile[row * (SIDE + 1) + column] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = (uint)get_local_id(0); i < SIDE * SIDE; i += LOCAL) {
        const uint row = i / SIDE, column = i % SIDE;
        if (first + row < n && first_term + column < to_ld)
            AT(to, first + row, first_term + column) = WEIGHT(tile[row * (SIDE + 1) + column]);
    }
}
