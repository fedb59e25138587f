/* Gates: y = x * g, with a row of g for each sample.
 *
 *     forward    y[r][c] = x[r][c] * g[n][c],  n = r / sample_rows
 *     backward   with GIVE_DX  dx[r][c] = dy[r][c] * g[n][c]   (+ dx_beta * dx[r][c] unless dx_beta is 0)
 *                with SUMS = 1 partial[ROW_SLICES * n + slice][c] = sum of dy * x over a slice's rows
 *
 * The forward pass is row-wise, see rowwise.clh. Backward a work-group takes a sample: its rows are those of a group in
 * rowwise.clh, with lanes and slices. gate_rows_backward is the same for samples of one row, row-wise, where sums have
 * one term; partial is dg. No local memory. y may be x, and dx may be dy. GIVE_DX, SUMS: 0 or 1;
 * what is not made or read is not touched. */
#include "prelude/rowwise.clh"
#ifndef GIVE_DX
#define GIVE_DX 0
#endif

KERNEL_OF(LOCAL) gate_forward(ROWWISE_SIZES, const ulong sample_rows, MAT_IN(x), MAT_IN(g), MAT_OUT(y))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT(GET(x, r, c) * GET(g, r / sample_rows, c), y, r, c);
}

/* Forward: y = x * g. */
KERNEL_OF(LOCAL) gate_backward(LANE_SIZES, const float dx_beta, MAT_IN(x), MAT_IN(g), MAT_IN(dy),
    MAT_OUT(dx), MAT_OUT(partial))
{
    const ulong n = get_group_id(0), own = ROW_SLICES * n + SLICE;
    FOR_STRIPS
        FOR_LANE_VECTORS(c) {
            vec gate = 0, sum = 0;
            if (GIVE_DX)
                gate = GET(g, n, c);
            if (SUMS && top > first_row)
                sum = GET(partial, own, c);
            FOR_SLICE_ROWS(r) {
                const vec d = GET(dy, r, c);
                if (SUMS)
                    sum = fma(d, GET(x, r, c), sum);
                if (GIVE_DX)
                    PUT_ADDED(d * gate, dx_beta, dx, r, c);
            }
            if (SUMS)
                PUT(sum, partial, own, c);
        }
}

KERNEL_OF(LOCAL) gate_rows_backward(ROWWISE_SIZES, const float dx_beta, MAT_IN(x), MAT_IN(g), MAT_IN(dy),
    MAT_OUT(dx), MAT_OUT(partial))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            const vec d = GET(dy, r, c);
            if (SUMS)
                PUT(d * GET(x, r, c), partial, r, c);
            if (GIVE_DX)
                PUT_ADDED(d * GET(g, r, c), dx_beta, dx, r, c);
        }
}
