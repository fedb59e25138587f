/* Batch normalisation: the passes over all rows.
 *
 *     z[r][c] = gamma[c] * inv[c] * (x[r][c] - mean[c]) + beta[c];  with RESIDUAL + residual[r][c]
 *
 *     forward          y = z; with RELU max(z, 0), NaN stays NaN; with GATE 1 z where the mask has a bit, else 0
 *                      with KEEP_MASK bit c of row r of the mask = !(z <= 0)
 *     backward_sums    sum 0 of the columns: d;  sum 1: d * (x - mean) * inv;  with KEEP_DZ dz = d
 *     backward_input   dx = gamma inv (d - share sums[0] - (x - mean) inv share sums[1])
 *     with             d = dy; with GATE 1 where the mask has a bit, with GATE 2 where !(z <= 0), else 0
 *
 * The backward passes compute z by the expression of the forward pass, so its sign is the same. Sum 1
 * is of d * (x - mean) * inv; xhat is never stored. share = 1 / rows.
 *
 * Row-wise with lanes, see rowwise.clh; the mask is that of relu_mask.clh, and needs VW 8 or 16. y may
 * be x or residual; dz dy or residual; dx x, dy or residual. Local memory: of backward_sums, 2 vectors
 * a work-item of a group with several.
 * RELU, RESIDUAL, KEEP_MASK, KEEP_DZ: 0 or 1. GATE: 0 to 2. SUMS 2 in backward_sums. */
#ifndef RELU
#define RELU 0
#endif
#ifndef RESIDUAL
#define RESIDUAL 0 /* 0: residual is not touched */
#endif
#ifndef KEEP_MASK
#define KEEP_MASK 0 /* 0: the forward pass does not touch mask */
#endif
#ifndef KEEP_DZ
#define KEEP_DZ 0 /* 0: dz is not touched */
#endif
#ifndef GATE
#define GATE 0 /* not 1: only the forward pass with KEEP_MASK touches mask */
#endif

/* What all rows share, for the columns from c on. */
#define CHANNELS(c)                                                                                \
    const vec middle = GET(mean, 0, c), rise = GET(gamma, 0, c) * GET(inv, 0, c),                  \
              shift = GET(beta, 0, c)

/* z of a deviation from the mean. */
#if RESIDUAL
#define Z(deviation, r, c) (fma(deviation, rise, shift) + GET(residual, r, c))
#else
#define Z(deviation, r, c) fma(deviation, rise, shift)
#endif

ROWWISE_KERNEL batch_norm_forward(LANE_SIZES, MAT_IN(x), MAT_IN(mean), MAT_IN(inv),
    MAT_IN(gamma), MAT_IN(beta), MAT_IN(residual), MAT_OUT(y), MAT_OUT(mask))
{
    FOR_STRIPS
        FOR_LANE_VECTORS(c) {
            CHANNELS(c);
            FOR_SLICE_ROWS(r) {
                const vec z = Z(GET(x, r, c) - middle, r, c);
#if KEEP_MASK
                mask_store(z, ROW(mask, r), c, cols - c);
#endif
#if GATE == 1
                PUT(mask_apply(z, ROW(mask, r), c), y, r, c);
#else
                PUT(RELU ? relu_of(z) : z, y, r, c);
#endif
            }
        }
}

#if GATE == 1
#define PASSED(d, deviation, r, c) mask_apply(d, ROW(mask, r), c)
#elif GATE == 2
#define PASSED(d, deviation, r, c) relu_gradient(d, Z(deviation, r, c))
#else
#define PASSED(d, deviation, r, c) (d)
#endif

/* Forward: y = relu(gamma * xhat + beta + residual). */
ROWWISE_KERNEL batch_norm_backward_sums(LANE_SIZES, MAT_IN(x), MAT_IN(mean), MAT_IN(inv),
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
                    const vec deviation = GET(x, r, c) - middle;
                    const vec d = PASSED(GET(dy, r, c), deviation, r, c);
                    plain += d;
                    scaled = fma(d, deviation * unit, scaled);
#if KEEP_DZ
                    PUT(d, dz, r, c);
#endif
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

/* Forward: y = relu(gamma * xhat + beta + residual), where mean and inv depend on all x. */
ROWWISE_KERNEL batch_norm_backward_input(LANE_SIZES, const float share, MAT_IN(x), MAT_IN(mean),
    MAT_IN(inv), MAT_IN(gamma), MAT_IN(beta), MAT_IN(residual), MAT_IN(dy), MAT_IN(mask),
    MAT_IN(sums), MAT_OUT(dx))
{
    FOR_STRIPS
        FOR_LANE_VECTORS(c) {
            CHANNELS(c);
            const vec unit = GET(inv, 0, c);
            const vec offset = share * GET(sums, 0, c);
            const vec slope = -unit * (share * GET(sums, 1, c));
            FOR_SLICE_ROWS(r) {
                const vec deviation = GET(x, r, c) - middle;
                const vec d = PASSED(GET(dy, r, c), deviation, r, c);
                PUT(rise * fma(deviation, slope, d - offset), dx, r, c);
            }
        }
}
