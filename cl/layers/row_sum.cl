/* sum[r] = sum_c x[r][c].
 *
 * Row-wise, see rowwise.clh: a team of TEAM work-items shares a row. Local memory: LOCAL floats where
 * TEAM > 1. */
#include "prelude/rowwise.clh"
#ifndef TEAM
#error "row_sum.cl needs TEAM"
#endif

KERNEL_OF(LOCAL) row_sum(ROWWISE_SIZES, MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(sum))
{
    local float part[LOCAL];
    FOR_TEAM_ROWS(r) {
        vec own = 0;
        FOR_TEAM_VECTORS(r, c)
            own += GET(x, r, c);
        const float total = team_sum(part, SUM(own));
        if (TEAM_LEADS(r))
            AT(sum, 0, r) = total;
    }
}
