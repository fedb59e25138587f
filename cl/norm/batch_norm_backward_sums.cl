/* Batch normalisation, the column sums of the backward pass: see batch_norm.clh. */
#include "norm/batch_norm.clh"
/* Forward: y = relu(gamma * xhat + beta + residual). */
KERNEL_OF(LOCAL) batch_norm_backward_sums(LANE_SIZES, X_IN, MAT_IN(mean), MAT_IN(inv),
    MAT_IN(gamma), MAT_IN(beta), MAT_IN(residual), MAT_IN(dy), MAT_IN(mask), MAT_OUT(dz),
    MAT_OUT(partial))
{
#if LOCAL > 1
    local vec part[2 * LOCAL];
#endif
    FOR_STRIPS
        FOR_LANE_BLOCKS(c) {
            vec plain = 0, scaled = 0; /* sums of d, and of d * xhat */
            if (c < cols) {
                CHANNELS(c);
                const vec unit = GET(inv, 0, c);
                plain = SUM_SO_FAR(0, c);
                scaled = SUM_SO_FAR(1, c);
                FOR_SLICE_ROWS(r) {
                    const vec deviation = GET_X(r, c) - middle;
                    const vec d = PASSED(GET(dy, r, c), deviation, r, c);
                    plain += d;
                    scaled = fma(d, deviation * unit, scaled);
                    if (KEEP_DZ)
                        PUT(d, dz, r, c);
                }
            }
#if LOCAL > 1
            const uint me = get_local_id(0);
            part[me] = plain;
            part[LOCAL + me] = scaled;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint s = ROW_LANES; SLICE == 0 && s < LOCAL; s += ROW_LANES) {
                plain += part[me + s];
                scaled += part[LOCAL + me + s];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
#endif
            if (c < cols && SLICE == 0) {
                KEEP_SUM(plain, 0, c);
                KEEP_SUM(scaled, 1, c);
            }
        }
}
