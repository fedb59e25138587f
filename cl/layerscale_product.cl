/* LayerScale behind a linear layer whose output t = g * w^T + b was not kept: y = x + ls * t.
 *
 *     weights    scaled[o][i] = ls[o] * w[o][i]                 so that dg = dy * scaled
 *     backward   dls[o] = sum_i w[o][i] * dw[o][i] + b[o] * db[o]
 *                dw[o][i] = ls[o] * dw[o][i], db[o] = ls[o] * db[o]
 *
 * where dw holds dy^T * g and db the sum of the rows of dy. Group k takes rows [k * ROWS, (k + 1) *
 * ROWS) of w. weights: its LOCAL work-items take vectors of VW columns in turn, the last one padded;
 * scaled may be w. backward: a team of TEAM work-items shares a row, then adds up in a tree; the
 * group's LOCAL / TEAM teams take rows in turn. Local memory: LOCAL floats where TEAM > 1.
 * LOCAL, ROWS: any >= 1; TEAM, needed by the second only: a power of two that divides LOCAL. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW)
#error "layerscale_product.cl needs LOCAL, ROWS and VW"
#endif

#ifndef TEAM
kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void layerscale_weights(
    const ulong rows, const ulong cols, MAT_IN(ls), MAT_IN(w), MAT_OUT(scaled))
{
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong r = first; r < last; r++) {
        const float scale = AT(ls, 0, r);
        for (ulong c = get_local_id(0) * VW; c < cols; c += LOCAL * VW)
            store_part(scale * load_part(ROW(w, r) + c, cols - c, 0), ROW(scaled, r) + c, cols - c);
    }
}
#else
#define TEAMS (LOCAL / TEAM)

/* Forward: y = x + ls * (g * w^T + b). */
kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void layerscale_product(
    const ulong rows, const ulong cols, MAT_IN_RESTRICT(w), MAT_IN_RESTRICT(b), MAT_IN_RESTRICT(ls),
    MAT_OUT_RESTRICT(dls), MAT_OUT_RESTRICT(dw), MAT_OUT_RESTRICT(db))
{
    local float part[LOCAL];
    const uint team = get_local_id(0) / TEAM, member = get_local_id(0) % TEAM;
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong next = first; next < last; next += TEAMS) {
        const ulong r = next + team;
        vec own = 0;
        if (r < last) {
            const float scale = AT(ls, 0, r);
            for (ulong c = member * VW; c < cols; c += TEAM * VW) {
                const vec product = load_part(ROW(dw, r) + c, cols - c, 0);
                own = fma(load_part(ROW(w, r) + c, cols - c, 0), product, own);
                store_part(scale * product, ROW(dw, r) + c, cols - c);
            }
        }
        const float total = team_sum(part, SUM(own));
        if (r < last && member == 0) {
            AT(dls, 0, r) = fma(AT(b, 0, r), AT(db, 0, r), total);
            AT(db, 0, r) *= AT(ls, 0, r);
        }
    }
}
#endif
