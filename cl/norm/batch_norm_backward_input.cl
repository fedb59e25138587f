/* Batch normalisation, the gradient of the input: see batch_norm.clh. dx is a result of narrow.clh. */
#include "prelude/narrow.clh"
#include "norm/batch_norm.clh"
/* Forward: y = relu(gamma * xhat + beta + residual), where mean and inv depend on all x. */
KERNEL_OF(LOCAL) batch_norm_backward_input(LANE_SIZES, const float share, X_IN, MAT_IN(mean),
    MAT_IN(inv), MAT_IN(gamma), MAT_IN(beta), MAT_IN(residual), MAT_IN(dy), MAT_IN(mask),
    MAT_IN(sums), MAT_RESULT(dx))
{
    FOR_STRIPS
        FOR_LANE_VECTORS(c) {
            CHANNELS(c);
            const vec unit = GET(inv, 0, c);
            const vec offset = share * GET(sums, 0, c);
            const vec slope = -unit * (share * GET(sums, 1, c));
            FOR_SLICE_ROWS(r) {
                const vec deviation = GET_X(r, c) - middle;
                const vec d = PASSED(GET(dy, r, c), deviation, r, c);
                PUT_RESULT(rise * fma(deviation, slope, d - offset), dx, r, c);
            }
        }
}
