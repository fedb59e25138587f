/* Softmax of each row.
 *
 *     forward     y[r][c] = exp(x[r][c] - most) / sum over c of exp(x[r][c] - most),  most = max of row r of x
 *     backward    dx[r][c] = y[r][c] * (dy[r][c] - sum over c of dy[r][c] * y[r][c])   (+ dx_beta * dx[r][c] unless dx_beta is 0)
 *
 * Row-wise, see rowwise.clh: a team of TEAM work-items shares a row. y may be x; dx may be dy: a work-item reads and
 * then writes its own elements. Local memory: LOCAL floats. */
#include "prelude/rowwise.clh"
#ifndef TEAM
#error "softmax.cl needs TEAM"
#endif

#define GET_OR_LEAST(x, r, c) load_part(ROW(x, r) + (c), cols - (c), -INFINITY)

KERNEL_OF(LOCAL) softmax_forward(ROWWISE_SIZES, MAT_IN(x), MAT_OUT(y))
{
    local float part[LOCAL];
    FOR_TEAM_ROWS(r) {
        vec most = -INFINITY;
        FOR_TEAM_VECTORS(r, c) {
            const vec value = GET_OR_LEAST(x, r, c);
            most = value > most ? value : most;
        }
        float own = -INFINITY, lanes[VW];
        TO_ARRAY(most, lanes);
        for (uint i = 0; i < VW; i++)
            own = lanes[i] > own ? lanes[i] : own;
        const float top = team_max(part, own);
        vec mass = 0;
        FOR_TEAM_VECTORS(r, c)
            mass += exp_sum(GET_OR_LEAST(x, r, c) - top, (vec)(0.0f));
        const float sum = team_sum(part, SUM(mass));
        FOR_TEAM_VECTORS(r, c)
            PUT(exp_sum(GET_OR_LEAST(x, r, c) - top, (vec)(0.0f)) / sum, y, r, c);
    }
}

/* Forward: y = exp(x) / sum of exp(x). */
KERNEL_OF(LOCAL) softmax_backward(ROWWISE_SIZES, const float dx_beta, MAT_IN(y), MAT_IN(dy), MAT_OUT(dx))
{
    local float part[LOCAL];
    FOR_TEAM_ROWS(r) {
        vec along = 0;
        FOR_TEAM_VECTORS(r, c)
            along = fma(GET(y, r, c), GET(dy, r, c), along);
        const float slope = team_sum(part, SUM(along));
        FOR_TEAM_VECTORS(r, c) {
            const vec gradient = GET(y, r, c) * (GET(dy, r, c) - slope);
            PUT_ADDED(gradient, dx_beta, dx, r, c);
        }
    }
}
