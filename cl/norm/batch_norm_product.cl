/* Batch norm after a convolution x = patches * w^T whose output x was not kept. Row o of dw is an output
 * channel; on entry dw = dz^T * patches.
 *
 *     scaled[o]  = inv[o] * (sum over t of w[o][t] * dw[o][t] - mean[o] * dz_sum[o])
 *                                                                   the sum of dz * (x - mean) * inv
 *     dw[o][t]   = gamma[o] inv[o] (dw[o][t] - share dz_sum[o] patch_sum[t]
 *                      - share scaled[o] inv[o] (x_product[o][t] - mean[o] patch_sum[t]))
 *     dgamma[o]  = scaled[o]   (+ beta * dgamma[o] unless beta is 0)
 *
 * share = 1 / the number of rows of x. Row-wise with teams, see rowwise.clh; local memory: LOCAL floats. */
#include "prelude/rowwise.clh"

/* Forward: y = relu(gamma * (x - mean) * inv + beta), x = patches * w^T. */
KERNEL_OF(LOCAL) batch_norm_product(ROWWISE_SIZES, const float share, const float beta,
    MAT_IN_RESTRICT(mean), MAT_IN_RESTRICT(inv), MAT_IN_RESTRICT(gamma), MAT_IN_RESTRICT(w),
    MAT_IN_RESTRICT(patch_sum), MAT_IN_RESTRICT(x_product), MAT_IN_RESTRICT(dz_sum),
    MAT_OUT_RESTRICT(dw), MAT_OUT_RESTRICT(dgamma))
{
    local float part[LOCAL];
    FOR_TEAM_ROWS(o) {
        vec own = 0;
        FOR_TEAM_VECTORS(o, t)
            own = fma(GET(w, o, t), GET(dw, o, t), own);
        const float along = team_sum(part, SUM(own)); /* the sum of dz * x */
        const ulong there = min(o, rows - 1);
        const float unit = AT(inv, 0, there), middle = AT(mean, 0, there);
        const float plain = AT(dz_sum, 0, there), scaled = unit * fma(-middle, plain, along);
        const float rise = AT(gamma, 0, there) * unit;
        const vec offset = share * plain, slope = share * scaled * unit;
        FOR_TEAM_VECTORS(o, t) {
            const vec patch = GET(patch_sum, 0, t);
            const vec deviation = fma((vec)(-middle), patch, GET(x_product, o, t));
            PUT(rise * fma(-slope, deviation, fma(-offset, patch, GET(dw, o, t))), dw, o, t);
        }
        if (TEAM_LEADS(o))
            AT(dgamma, 0, o) = beta != 0 ? fma(beta, AT(dgamma, 0, o), scaled) : scaled;
    }
}
