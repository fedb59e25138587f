/* Responses of features, from the sums of their squares, a row for each sample: g = sqrt(squares).
 *
 *     forward     y[r][c] = g[r][c] / m,  m = mean of row r of g + eps
 *     backward    slopes[r][c] = (dy[r][c] - mean over c of dy[r][c] * g[r][c] / m) / m / g[r][c], 0 where g is 0
 *
 * Row-wise, see rowwise.clh: a team of TEAM work-items shares a row. Local memory: LOCAL floats. */
#include "prelude/rowwise.clh"
#ifndef TEAM
#error "response.cl needs TEAM"
#endif

KERNEL_OF(LOCAL) response_forward(ROWWISE_SIZES, const float eps, MAT_IN(squares), MAT_OUT(y))
{
    local float part[LOCAL];
    const float n = max(cols, (ulong)1);
    FOR_TEAM_ROWS(r) {
        vec own = 0;
        FOR_TEAM_VECTORS(r, c)
            own += sqrt(GET(squares, r, c));
        const float mean = team_sum(part, SUM(own)) / n + eps;
        FOR_TEAM_VECTORS(r, c)
            PUT(sqrt(GET(squares, r, c)) / mean, y, r, c);
    }
}

/* Forward: y = g / m. */
KERNEL_OF(LOCAL) response_backward(ROWWISE_SIZES, const float eps, MAT_IN(squares), MAT_IN(dy), MAT_OUT(slopes))
{
    local float part[LOCAL];
    const float n = max(cols, (ulong)1);
    FOR_TEAM_ROWS(r) {
        vec own = 0, along = 0;
        FOR_TEAM_VECTORS(r, c) {
            const vec g = sqrt(GET(squares, r, c));
            own += g;
            along = fma(GET(dy, r, c), g, along);
        }
        const float mean = team_sum(part, SUM(own)) / n + eps;
        const float slope = team_sum(part, SUM(along)) / n / mean;
        FOR_TEAM_VECTORS(r, c) {
            const vec g = sqrt(GET(squares, r, c)), zero = 0;
            PUT(g == zero ? zero : (GET(dy, r, c) - slope) / mean / g, slopes, r, c);
        }
    }
}
