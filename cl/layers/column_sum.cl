/* Sums over the rows of a matrix, in two stages: one partial sum per group, then the groups.
 *
 *     column_sum_partial   partial[g][c] = sum over the rows r of group g of x[r][c]
 *
 * Row-wise, see rowwise.clh; x is a source of narrow.clh.
 *
 *     column_sum_final     sum[c] = sum over g < groups of partial[g * step][c]
 *                                   (+ beta * sum[c] unless beta is 0)
 *
 * Groups with id 1 along the second axis do the same for `second` and partial[g * step + 1]. A
 * group takes LANES vectors of columns. Work-item i adds, for lane i mod LANES, the partial sums
 * g = slice, slice + SLICES, ..., slice = i / LANES; slice 0 then adds up the slices in order:
 *
 *              lane 0   lane 1   ...           LOCAL = LANES * SLICES
 *     slice 0  g = 0, SLICES, 2 SLICES, ...    local memory: LOCAL vectors where SLICES > 1
 *     slice 1  g = 1, SLICES + 1, ...
 *
 * Strips of 8 rows or fewer are unrolled. LANES: a divisor of LOCAL. */
#include "prelude/narrow.clh"

#if BF16_IN
#define X_IN MAT_SOURCE(x)
#else
#define X_IN MAT_IN_RESTRICT(x)
#endif

#ifndef LANES
KERNEL_OF(LOCAL) column_sum_partial(ROWWISE_SIZES, X_IN, MAT_OUT_RESTRICT(partial))
{
    FOR_STRIPS
        FOR_VECTORS(c) {
            vec sum = SUM_SO_FAR(0, c);
#if defined(STRIP) && STRIP <= 8 && !BF16_IN
            if (top + STRIP <= last_row && c + VW <= cols) {
                global const float *column = ROW(x, top) + c;
                UNROLLED(r, STRIP)
                    sum += LOAD(column + r * x_ld);
                KEEP_SUM(sum, 0, c);
                continue;
            }
#endif
            FOR_STRIP_ROWS(r)
                sum += GET_SOURCE(x, r, c);
            KEEP_SUM(sum, 0, c);
        }
}
#else
#define SLICES (LOCAL / LANES)

KERNEL_OF(LOCAL) column_sum_final(const ulong groups, const ulong step, const ulong cols,
    const float beta, MAT_IN(partial), MAT_OUT(second), MAT_OUT(sum))
{
    const ulong row = get_group_id(1);
    global float *to = row == 1 ? ROW(second, 0) : ROW(sum, 0);
    const uint lane = get_local_id(0) % LANES;
    const uint slice = get_local_id(0) / LANES;
    const ulong c = (get_group_id(0) * LANES + lane) * VW;
    vec total = 0;
    if (c < cols)
        for (ulong g = slice; g < groups; g += SLICES)
            total += load_part(ROW(partial, g * step + row) + c, cols - c, 0);
#if SLICES > 1
    local vec slices[LOCAL];
    slices[get_local_id(0)] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice == 0)
        for (uint s = 1; s < SLICES; s++)
            total += slices[s * LANES + lane];
#endif
    if (slice == 0 && c < cols) {
        if (beta != 0)
            total = fma((vec)(beta), load_part(to + c, cols - c, 0), total);
        store_part(total, to + c, cols - c);
    }
}
#endif
