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

/* Sums of eight vectors, each added up as sum16 does: lanes i and i + 8 first, then 4, 2, 1 apart. The
 * halves of two sums share a vector. */
#if NORM != 2 && BR == 1 && BC % 16 == 0 && VW == 16 && LOCAL == 1
#define EIGHT_AT_A_TIME
inline float8 sum16_of_eight(const float16 v[8])
{
    float16 two[4], four[2];
#pragma unroll
    for (int i = 0; i < 4; i++)
        two[i] = (float16)(v[2 * i].lo, v[2 * i + 1].lo) + (float16)(v[2 * i].hi, v[2 * i + 1].hi);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float16 a = two[2 * i], b = two[2 * i + 1];
        four[i] = (float16)(a.s0123, a.s89ab, b.s0123, b.s89ab) +
                  (float16)(a.s4567, a.scdef, b.s4567, b.scdef);
    }
    const float16 a = four[0], b = four[1];
    const float16 eight = (float16)(a.s01, a.s45, a.s89, a.scd, b.s01, b.s45, b.s89, b.scd) +
                          (float16)(a.s23, a.s67, a.sab, a.sef, b.s23, b.s67, b.sab, b.sef);
    return eight.even + eight.odd;
}
#endif

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void prune_score(const ulong rows,
    const ulong cols, const ulong block_rows, const ulong block_cols, MAT_IN_RESTRICT(x),
    const ulong scores_offset, global float *restrict scores)
{
    const ulong n = get_group_id(0) / block_rows;
    const ulong block_row = get_group_id(0) % block_rows;
    const uint height = (uint)min((ulong)BR, rows - block_row * BR);
    global const float *row = ROW(x, n * rows + block_row * BR);
    global float *out = scores + scores_offset + (n * block_rows + block_row) * block_cols;
    ulong j = get_local_id(0);
#ifdef EIGHT_AT_A_TIME
    for (; (j + 8) * BC <= cols; j += 8) {
        float16 sums[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            sums[i] = (float16)(0.0f);
            for (uint c = 0; c < BC; c += 16) {
                const float16 v = vload16(0, row + (j + i) * BC + c);
                sums[i] = NORM == 0 ? fma(v, v, sums[i]) : sums[i] + fabs(v);
            }
        }
        const float8 sum = sum16_of_eight(sums);
#if NORM == 1
        vstore8(sum, 0, out + j);
#else
        vstore8(sqrt(sum), 0, out + j);
        const int8 safe = sum > SAFE_LOW && sum < SAFE_HIGH;
        if (!all(safe))
            for (int i = 0; i < 8; i++)
                if (!((const int *)&safe)[i])
                    out[j + i] = block_l2_scaled(row + (j + i) * BC, x_ld, height, BC);
#endif
    }
#endif
    for (; j < block_cols; j += LOCAL) {
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
