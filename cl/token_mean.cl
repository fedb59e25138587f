/* Mean over the tokens of each sample.
 *
 *     forward    y[n][c] = (sum over p < tokens of x[n * tokens + p][c]) * scale
 *     with       scale = 1 / tokens; NaN for no tokens
 *
 * Group (i, n) takes sample n and the columns from i * LOCAL * VW on, a vector of VW of them for
 * each of its LOCAL work-items, the last one padded, and adds the tokens up in order.
 *
 *     backward   dx[r][c] = dy[r / tokens][c] * scale
 *
 * Group g takes rows [g * ROWS, (g + 1) * ROWS) of dx; its LOCAL work-items take vectors of VW
 * columns in turn. No local memory. LOCAL, ROWS: any >= 1; ROWS is needed by the second only. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "token_mean.cl needs LOCAL, ROWS and VW"
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void token_mean_forward(
    const ulong tokens, const ulong cols, const float scale, MAT_IN_RESTRICT(x),
    MAT_OUT_RESTRICT(y))
{
    const ulong c = get_global_id(0) * VW;
    const ulong n = get_group_id(1);
    if (c >= cols)
        return;
    vec sum = 0;
    for (ulong r = n * tokens; r < (n + 1) * tokens; r++)
        sum += load_part(ROW(x, r) + c, cols - c, 0);
    store_part(sum * scale, ROW(y, n) + c, cols - c);
}

/* Forward: y[n] = scale * sum_p x[n * tokens + p]. */
kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void token_mean_backward(const ulong rows,
    const ulong cols, const ulong tokens, const float scale, MAT_IN_RESTRICT(dy),
    MAT_OUT_RESTRICT(dx))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        const ulong n = r / tokens;
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW)
            store_part(load_part(ROW(dy, n) + c, cols - c, 0) * scale, ROW(dx, r) + c, cols - c);
    }
}
