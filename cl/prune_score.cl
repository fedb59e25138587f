/* scores[n * blocks + i] = norm of block i of sample n.
 *
 * Block i = (I, J) of sample n covers rows n * rows + I * BR .. + BR and columns J * BC .. + BC of
 * x, cut at the edges of the sample: padding counts as zero.
 *
 * Group g takes block row I = g % block_rows of sample n = g / block_rows; its LOCAL work-items take
 * blocks J in turn. A block is read in vectors of VW columns, its last columns one by one. No local
 * memory.
 *
 * NORM: 0 l2, 1 l1, 2 max. The l2 norm is sqrt(sum x^2) where the sum can neither overflow nor
 * vanish, else m * sqrt(sum (x / m)^2) with m = max |x|; a NaN or Inf in a block is the score. */
#if !defined(LOCAL) || !defined(VW) || !defined(BR) || !defined(BC) || !defined(NORM)
#error "prune_score.cl needs LOCAL, VW, BR, BC and NORM"
#endif

/* Sums of squares between these need no scaling. */
#define SAFE_LOW  1e-30f
#define SAFE_HIGH 1e37f

/* NaN-keeping maximum of magnitudes: fmax would drop a NaN. */
inline float larger(const float a, const float b)
{
    return a > b || isnan(a) ? a : b;
}

inline float block_max(
    global const float *first, const ulong ld, const uint height, const uint width)
{
    float m = 0.0f;
    for (uint r = 0; r < height; r++)
        for (uint c = 0; c < width; c++)
            m = larger(m, fabs(first[r * ld + c]));
    return m;
}

/* Scaled by a power of two, so that a block scores the same at every magnitude. */
inline float block_l2_scaled(
    global const float *first, const ulong ld, const uint height, const uint width)
{
    const float m = block_max(first, ld, height, width);
    if (m == 0.0f || isnan(m) || isinf(m))
        return m;
    const int shift = ilogb(m);
    float sum = 0.0f;
    for (uint r = 0; r < height; r++)
        for (uint c = 0; c < width; c++) {
            const float x = ldexp(first[r * ld + c], -shift);
            sum = fma(x, x, sum);
        }
    return ldexp(sqrt(sum), shift);
}

/* Sum of x^2 (NORM 0) or |x| (NORM 1) over a block. */
inline float block_sum(
    global const float *first, const ulong ld, const uint height, const uint width)
{
    vec sums = (vec)(0.0f);
    float rest = 0.0f;
    for (uint r = 0; r < height; r++) {
        global const float *row = first + r * ld;
        uint c = 0;
        for (; c + VW <= width; c += VW) {
            const vec x = LOAD(row + c);
            sums = NORM == 0 ? fma(x, x, sums) : sums + fabs(x);
        }
        for (; c < width; c++)
            rest = NORM == 0 ? fma(row[c], row[c], rest) : rest + fabs(row[c]);
    }
    return SUM(sums) + rest;
}

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void prune_score(const ulong rows,
    const ulong cols, const ulong block_rows, const ulong block_cols, MAT_IN_RESTRICT(x),
    const ulong scores_offset, global float *restrict scores)
{
    const ulong n = get_group_id(0) / block_rows;
    const ulong block_row = get_group_id(0) % block_rows;
    const uint height = (uint)min((ulong)BR, rows - block_row * BR);
    global const float *row = ROW(x, n * rows + block_row * BR);
    global float *out = scores + scores_offset + (n * block_rows + block_row) * block_cols;
    for (ulong j = get_local_id(0); j < block_cols; j += LOCAL) {
        global const float *first = row + j * BC;
        const uint width = (uint)min((ulong)BC, cols - j * BC);
#if NORM == 2
        out[j] = block_max(first, x_ld, height, width);
#else
        const float sum = block_sum(first, x_ld, height, width);
#if NORM == 1
        out[j] = sum;
#else
        out[j] = sum > SAFE_LOW && sum < SAFE_HIGH ? sqrt(sum)
                                                   : block_l2_scaled(first, x_ld, height, width);
#endif
#endif
    }
}
