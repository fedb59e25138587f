/* Batch normalisation, the forward pass: see batch_norm.clh; residual and y are source and result of narrow.clh. */
#include "prelude/narrow.clh"
#define GET_RESIDUAL(r, c) GET_SOURCE(residual, r, c)
#include "norm/batch_norm.clh"
KERNEL_OF(LOCAL) batch_norm_forward(LANE_SIZES, X_IN, MAT_IN(mean), MAT_IN(inv), MAT_IN(gamma),
    MAT_IN(beta), MAT_SOURCE(residual), MAT_RESULT(y), MAT_OUT(mask))
{
    FOR_STRIPS
        FOR_LANE_VECTORS(c) {
            CHANNELS(c);
            FOR_SLICE_ROWS(r) {
                const vec z = Z(GET_X(r, c) - middle, r, c);
                IF(KEEP_MASK)(mask_store(z, ROW(mask, r), c, cols - c);)
#if GATE == 1
                PUT_RESULT(mask_apply(z, ROW(mask, r), c), y, r, c);
#else
                PUT_RESULT(RELU ? relu_of(z) : z, y, r, c);
#endif
            }
        }
}
