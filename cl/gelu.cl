/* GELU: g = h * Phi(h), Phi the normal distribution function.
 *
 *     forward    g[r][c]  = h * Phi(h)
 *     backward   dh[r][c] = dg[r][c] * (Phi(h) + h * phi(h))
 *     recompute  both at once, and partial[i][c] = sum over the rows r of group i of dh[r][c]
 *     with       h = h[r][c],  phi(h) = exp(-h^2 / 2) / sqrt(2 pi)
 *
 * Group i takes rows [i * ROWS, (i + 1) * ROWS); its LOCAL work-items take vectors of VW columns in
 * turn, the last one padded. gelu_backward_recompute does so for one strip of STRIP rows after the
 * other, and the partial sums wait in memory meanwhile; column_sum_final adds them up.
 * g may be h; dh may be dg, in gelu_backward also h. No local memory.
 * Errors: |g - exact| <= 4 * 2^-24 * |h| and 8 * 2^-24 * |exact|; of the slope, 4 * 2^-24.
 * g(-Inf) = -0, g(Inf) = Inf; the slopes there are 0 and 1. LOCAL, ROWS, STRIP: any >= 1. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "gelu.cl needs LOCAL, ROWS and VW"
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void gelu_forward(
    const ulong rows, const ulong cols, MAT_IN(h), MAT_OUT(g))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            vec slope; /* not wanted */
            const vec value = gelu_with_slope(load_part(ROW(h, r) + c, cols - c, 0), &slope);
            store_part(value, ROW(g, r) + c, cols - c);
        }
    }
}

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void gelu_backward(
    const ulong rows, const ulong cols, MAT_IN(h), MAT_IN(dg), MAT_OUT(dh))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            vec slope; /* forward: g = h * Phi(h), so g' = Phi(h) + h * Phi'(h) */
            (void)gelu_with_slope(load_part(ROW(h, r) + c, cols - c, 0), &slope);
            const vec gradient = load_part(ROW(dg, r) + c, cols - c, 0);
            store_part(gradient * slope, ROW(dh, r) + c, cols - c);
        }
    }
}

#ifndef STRIP
#define STRIP ROWS
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void gelu_backward_recompute(
    const ulong rows, const ulong cols, MAT_IN(h), MAT_IN(dg), MAT_OUT(g), MAT_OUT(dh),
    MAT_OUT_RESTRICT(partial))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    global float *sums = ROW(partial, get_group_id(0));
    for (ulong top = first; top < last; top += STRIP) {
        const ulong bottom = min(top + STRIP, last);
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            vec sum = 0;
            if (top > first)
                sum = load_part(sums + c, left, 0);
            for (ulong r = top; r < bottom; r++) {
                vec slope;
                const vec value = gelu_with_slope(load_part(ROW(h, r) + c, left, 0), &slope);
                const vec gradient = load_part(ROW(dg, r) + c, left, 0) * slope;
                sum += gradient;
                store_part(value, ROW(g, r) + c, left);
                store_part(gradient, ROW(dh, r) + c, left);
            }
            store_part(sum, sums + c, left);
        }
    }
}
