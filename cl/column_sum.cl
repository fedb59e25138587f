/* Sums over the rows of a matrix, in two stages: one partial sum per group, then the groups.
 *
 *     column_sum_partial   partial[g][c] = sum over the rows r of group g of x[r][c]
 *
 * Group g takes rows [g * ROWS, (g + 1) * ROWS), one strip of STRIP rows after the other; its LOCAL
 * work-items take vectors of VW columns in turn, the last one padded, and the partial sums wait in
 * memory between the strips. A column is one work-item's, in the order of the rows.
 *
 *     column_sum_final     sum[c] = sum over g < groups of partial[g * step][c]
 *                                   (+ sum[c] with ACCUMULATE)
 *
 * A group takes LANES vectors of columns; work-item i sums, for lane i mod LANES, the partial sums
 * g = slice, slice + SLICES, ..., slice = i / LANES; slice 0 then adds the slices up in order:
 *
 *              lane 0   lane 1   ...           LOCAL = LANES * SLICES
 *     slice 0  g = 0, SLICES, 2 SLICES, ...    local memory: LOCAL vectors where SLICES > 1
 *     slice 1  g = 1, SLICES + 1, ...
 *
 * Strips of 8 rows or less are added up in one go. LOCAL, ROWS, STRIP: any >= 1; ROWS is needed by
 * the first, LANES, a divisor of LOCAL, by the second. */
#if !defined(LOCAL) || !defined(VW)
#error "column_sum.cl needs LOCAL and VW"
#endif
#if !defined(ROWS) && !defined(LANES)
#error "column_sum.cl needs ROWS or LANES"
#endif

#ifdef ROWS
#ifndef STRIP
#define STRIP ROWS
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void column_sum_partial(
    const ulong rows, const ulong cols, MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(partial))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    global float *sums = ROW(partial, get_group_id(0));
    for (ulong top = first; top < last; top += STRIP) {
        const ulong bottom = min(top + STRIP, last);
        ulong c = get_local_id(0) * VW;
#if STRIP <= 8
        if (bottom == top + STRIP)
            for (; c + VW <= cols; c += LOCAL * VW) {
                global const float *column = ROW(x, top) + c;
                vec sum = 0;
                if (top > first)
                    sum = LOAD(sums + c);
#pragma unroll
                for (uint r = 0; r < STRIP; r++)
                    sum += LOAD(column + r * x_ld);
                STORE(sum, sums + c);
            }
#endif
        for (; c < cols; c += LOCAL * VW) {
            vec sum = 0;
            if (top > first)
                sum = load_part(sums + c, cols - c, 0);
            for (ulong r = top; r < bottom; r++)
                sum += load_part(ROW(x, r) + c, cols - c, 0);
            store_part(sum, sums + c, cols - c);
        }
    }
}
#endif

#ifdef LANES
#define SLICES (LOCAL / LANES)
#ifndef ACCUMULATE
#define ACCUMULATE 0 /* 0: sum is overwritten; 1: it is added to */
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void column_sum_final(const ulong groups,
    const ulong step, const ulong cols, MAT_IN_RESTRICT(partial), MAT_OUT_RESTRICT(sum))
{
    const uint lane = get_local_id(0) % LANES;
    const uint slice = get_local_id(0) / LANES;
    const ulong c = (get_group_id(0) * LANES + lane) * VW;
    vec total = 0;
    if (c < cols)
        for (ulong g = slice; g < groups; g += SLICES)
            total += load_part(ROW(partial, g * step) + c, cols - c, 0);
#if SLICES > 1
    local vec slices[LOCAL];
    slices[get_local_id(0)] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice == 0)
        for (uint s = 1; s < SLICES; s++)
            total += slices[s * LANES + lane];
#endif
    if (slice == 0 && c < cols) {
#if ACCUMULATE
        total += load_part(ROW(sum, 0) + c, cols - c, 0);
#endif
        store_part(total, ROW(sum, 0) + c, cols - c);
    }
}
#endif
