/* Bias additions, in place.
 *
 *     bias_rows     y[r][c] += b[c]
 *     bias_tokens   y[r][c] += b[r mod tokens]
 *
 * Group g takes rows [g * ROWS, (g + 1) * ROWS); its LOCAL work-items take vectors of VW columns in
 * turn, the last one padded. No local memory. LOCAL, ROWS: any >= 1. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "bias.cl needs LOCAL, ROWS and VW"
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bias_rows(
    const ulong rows, const ulong cols, MAT_IN_RESTRICT(b), MAT_OUT_RESTRICT(y))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            const ulong left = cols - c;
            const vec sum = load_part(ROW(y, r) + c, left, 0) + load_part(ROW(b, 0) + c, left, 0);
            store_part(sum, ROW(y, r) + c, left);
        }
    }
}

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bias_tokens(const ulong rows,
    const ulong cols, const ulong tokens, MAT_IN_RESTRICT(b), MAT_OUT_RESTRICT(y))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        const float bias = AT(b, 0, r % tokens);
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW)
            store_part(load_part(ROW(y, r) + c, cols - c, 0) + bias, ROW(y, r) + c, cols - c);
    }
}
