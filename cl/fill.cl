/* fill: mat[r][c] = value.   mat_scale: mat[r][c] *= factor.   mat_copy: to[r][c] = from[r][c].
 *
 * Group g takes rows [g * ROWS, (g + 1) * ROWS); its LOCAL work-items take vectors of VW columns in
 * turn, the last columns one by one. No local memory. LOCAL, ROWS: any >= 1. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "fill.cl needs LOCAL, ROWS and VW"
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void fill(
    const ulong rows, const ulong cols, const float value, MAT_OUT(mat))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            if (c + VW <= cols)
                STORE((vec)(value), ROW(mat, r) + c);
            else
                for (ulong i = c; i < cols; i++)
                    AT(mat, r, i) = value;
        }
    }
}

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void mat_scale(
    const ulong rows, const ulong cols, const float factor, MAT_OUT(mat))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            if (c + VW <= cols)
                STORE(factor * LOAD(ROW(mat, r) + c), ROW(mat, r) + c);
            else
                for (ulong i = c; i < cols; i++)
                    AT(mat, r, i) *= factor;
        }
    }
}

/* The two may be windows of one buffer, apart from each other. */
kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void mat_copy(
    const ulong rows, const ulong cols, MAT_IN(from), MAT_OUT(to))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW) {
            if (c + VW <= cols)
                STORE(LOAD(ROW(from, r) + c), ROW(to, r) + c);
            else
                for (ulong i = c; i < cols; i++)
                    AT(to, r, i) = AT(from, r, i);
        }
    }
}
