/* GELU: g = h * Phi(h), Phi the normal distribution function.
 *
 *     forward    g[r][c]  = h * Phi(h);  with BIAS h + b for h, in the place of h too
 *     backward   dh[r][c] = dg[r][c] * (Phi(h) + h * phi(h))
 *                with SUMS  partial[i][c] = sum over the rows r of group i of dh[r][c]
 *                with AGAIN g as in the forward pass
 *     with       h = h[r][c],  b = b[c],  phi(h) = exp(-h^2 / 2) / sqrt(2 pi)
 *
 * Group i takes rows [i * ROWS, (i + 1) * ROWS); its LOCAL work-items take vectors of VW columns in
 * turn, the last one padded. With SUMS they do so for one strip of STRIP rows after the other, and
 * the partial sums wait in memory meanwhile; column_sum_final adds them up.
 * g may be h; dh may be dg, without AGAIN also h. No local memory.
 * Errors: |g - exact| <= 4 * 2^-24 * |h| and 8 * 2^-24 * |exact|; of the slope, 4 * 2^-24.
 * g(-Inf) = -0, g(Inf) = Inf; the slopes there are 0 and 1.
 * LOCAL, ROWS, STRIP: any >= 1. BIAS, SUMS, AGAIN: 0 or 1. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "gelu.cl needs LOCAL, ROWS and VW"
#endif

#ifndef BIAS
#define BIAS 0 /* 0: b is not touched */
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void gelu_forward(
    const ulong rows, const ulong cols, MAT_IN_RESTRICT(b), MAT_OUT(h), MAT_OUT(g))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            vec in = load_part(ROW(h, r) + c, left, 0), slope; /* that is not wanted */
            if (BIAS) {
                in += load_part(ROW(b, 0) + c, left, 0);
                store_part(in, ROW(h, r) + c, left);
            }
            store_part(gelu_with_slope(in, &slope), ROW(g, r) + c, left);
        }
    }
}

#ifndef SUMS
#define SUMS 0 /* 0: `partial` is not touched */
#endif
#ifndef AGAIN
#define AGAIN 0 /* 0: g is not touched */
#endif
#ifndef STRIP
#define STRIP (SUMS ? ROWS : 1) /* 1: one row after the other */
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void gelu_backward(const ulong rows,
    const ulong cols, MAT_IN(h), MAT_IN(dg), MAT_OUT(g), MAT_OUT(dh), MAT_OUT(partial))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong top = first; top < last; top += STRIP) {
        const ulong bottom = min(top + STRIP, last);
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            global float *sums = SUMS ? ROW(partial, get_group_id(0)) + c : 0;
            vec sum = 0;
            if (SUMS && top > first)
                sum = load_part(sums, left, 0);
            for (ulong r = top; r < bottom; r++) {
                vec slope; /* forward: g = h * Phi(h), so g' = Phi(h) + h * Phi'(h) */
                const vec value = gelu_with_slope(load_part(ROW(h, r) + c, left, 0), &slope);
                const vec gradient = load_part(ROW(dg, r) + c, left, 0) * slope;
                sum += gradient;
                if (AGAIN)
                    store_part(value, ROW(g, r) + c, left);
                store_part(gradient, ROW(dh, r) + c, left);
            }
            if (SUMS)
                store_part(sum, sums, left);
        }
    }
}
