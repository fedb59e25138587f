/* sum[r] = sum_c x[r][c].
 *
 * Group g takes rows [g * ROWS, (g + 1) * ROWS). A team of TEAM work-items shares a row: each takes
 * vectors of VW columns in turn, the last one padded, then the team adds them up in a tree; the
 * group's LOCAL / TEAM teams take rows in turn. Local memory: LOCAL floats where TEAM > 1.
 * ROWS: any >= 1; TEAM: a power of two that divides LOCAL. */
#if !defined(LOCAL) || !defined(ROWS) || !defined(VW) || !defined(TEAM)
#error "row_sum.cl needs LOCAL, ROWS, VW and TEAM"
#endif
#define TEAMS (LOCAL / TEAM)

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void row_sum(
    const ulong rows, const ulong cols, MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(sum))
{
    local float part[LOCAL];
    const uint team = get_local_id(0) / TEAM, member = get_local_id(0) % TEAM;
    const ulong first = get_group_id(0) * ROWS;
    const ulong last = min(first + ROWS, rows);
    for (ulong next = first; next < last; next += TEAMS) {
        const ulong r = next + team;
        vec own = 0;
        if (r < last)
            for (ulong c = member * VW; c < cols; c += TEAM * VW)
                own += load_part(ROW(x, r) + c, cols - c, 0);
        const float total = team_sum(part, SUM(own));
        if (r < last && member == 0)
            AT(sum, 0, r) = total;
    }
}
