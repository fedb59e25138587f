/* Mean squared error.
 *
 *     forward    sum[s][0]  = scale * sum of (y - target)^2 over part s
 *     mean       loss[n][0] = scale * sum_i sum[n][i]
 *     backward   dy[r][c]   = factor * (y[r][c] - target[r][c])
 *
 * A sample, of sample_rows rows, is divided into parts of part_rows rows and SEGMENT columns, or what is
 * left of them at its edges:
 *
 *                SEGMENT columns
 *                 part 0 | part 1 | ...          across = ceil(cols / SEGMENT)
 *     part_rows   part across | ...              down = ceil(sample_rows / part_rows)
 *
 * Part s is part s mod (across * down) of sample s / (across * down). Row-wise, see rowwise.clh: forward
 * takes parts for rows, mean the parts of a sample for columns. In forward the members of a team take the
 * vectors of a part in turn, row after row. Sums of many terms are added up in blocks, whose number and
 * length stay small beside the number of terms, and so does the error.
 *
 * dy may be y. Local memory: LOCAL floats where TEAM > 1. SEGMENT: a multiple of VW. Without TEAM there
 * is only the backward pass. */
#include "prelude/rowwise.clh"
#define BLOCK 64 /* vectors */

#ifdef TEAM
#ifndef SEGMENT
#error "mean_squared_error.cl needs SEGMENT"
#endif

KERNEL_OF(LOCAL) mean_squared_error_forward(ROWWISE_SIZES, const ulong sample_rows,
    const ulong part_rows, const float scale, MAT_IN_RESTRICT(y), MAT_IN_RESTRICT(target),
    MAT_OUT_RESTRICT(sum))
{
    local float part[LOCAL];
    const ulong across = (cols + SEGMENT - 1) / SEGMENT;
    const ulong down = (sample_rows + part_rows - 1) / part_rows;
    FOR_TEAM_ROWS(s) {
        const ulong left = s % across * SEGMENT, top = s / across % down * part_rows;
        const ulong first = s / across / down * sample_rows + top;
        const uint height = s < last_row ? (uint)min(part_rows, sample_rows - top) : 0;
        const uint vectors = ((uint)min((ulong)SEGMENT, cols - left) + VW - 1) / VW;
        const uint row_step = TEAM / vectors, step = TEAM % vectors;
        uint row = TEAM_MEMBER / vectors, v = TEAM_MEMBER % vectors;
        vec own = 0;
        while (row < height) {
            const ulong r = first + row, c = left + v * VW;
            const vec d = GET(y, r, c) - GET(target, r, c);
            own = fma(d, d, own);
            row += row_step;
            v += step;
            if (v >= vectors) {
                v -= vectors;
                row++;
            }
        }
        const float total = team_sum(part, SUM(own));
        if (TEAM_LEADS(s))
            AT(sum, s, 0) = scale * total;
    }
}

KERNEL_OF(LOCAL) mean_squared_error_mean(ROWWISE_SIZES, const float scale, MAT_IN_RESTRICT(sum),
    MAT_OUT_RESTRICT(loss))
{
    local float part[LOCAL];
    FOR_TEAM_ROWS(n) {
        vec own = 0, block = 0;
        uint count = 0;
        FOR_TEAM_VECTORS(n, c) {
            block += GET(sum, n, c);
            if (++count % BLOCK == 0) {
                own += block;
                block = 0;
            }
        }
        const float total = team_sum(part, SUM(own + block));
        if (TEAM_LEADS(n))
            AT(loss, n, 0) = scale * total;
    }
}
#else

/* Forward: loss = mean of (y - target)^2, so d loss / dy = 2 / elements * (y - target). */
KERNEL_OF(LOCAL) mean_squared_error_backward(ROWWISE_SIZES, const float factor, MAT_IN(y),
    MAT_IN(target), MAT_OUT(dy))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT(factor * (GET(y, r, c) - GET(target, r, c)), dy, r, c);
}
#endif
