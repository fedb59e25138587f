/* values[n][k][r][c] = x[n * rows + I * BR + r][col[n][k] * BC + c], zero beyond the edges.
 *
 * Group g takes block row I = g % block_rows of sample n = g / block_rows and copies the blocks
 * crow[n][I] <= k < crow[n][I + 1]. On CPUs (LOCAL 1) a block's rows are copied in vectors of VW;
 * on GPUs the work-items take consecutive elements of the values. No local memory.
 *
 * With WEIGHTED a block is scaled by max(1, thresholds[n] / its score): see clprune_prune_sampled.
 *
 * bsr_unpack is the way back: y is zero but for the kept blocks. */
#if !defined(LOCAL) || !defined(VW) || !defined(BR) || !defined(BC)
#error "bsr_pack.cl needs LOCAL, VW, BR and BC"
#endif
#ifndef WEIGHTED
#define WEIGHTED 0
#endif

/* What a kept block is scaled by; 1 where its score is NaN or 0. */
inline float weight_of(const float score, const float threshold)
{
    return score > 0.0f && threshold > score ? threshold / score : 1.0f;
}

/* Copies `width` floats of a block row, times weight, and pads with zeros to BC. */
inline void copy_row(
    global const float *from, const uint width, const float weight, global float *to)
{
    uint c = 0;
    for (; c + VW <= width; c += VW)
        STORE(weight * LOAD(from + c), to + c);
    for (; c < width; c++)
        to[c] = weight * from[c];
    for (; c < BC; c++)
        to[c] = 0.0f;
}

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bsr_pack(const ulong rows,
    const ulong cols, const ulong block_rows, const ulong keep, MAT_IN_RESTRICT(x),
    global const int *restrict crow, global const int *restrict col,
    global float *restrict values
#if WEIGHTED
    ,
    const ulong block_cols, const ulong scores_offset, global const float *restrict scores,
    const ulong thresholds_offset, global const float *restrict thresholds
#endif
)
{
    const ulong n = get_group_id(0) / block_rows;
    const ulong block_row = get_group_id(0) % block_rows;
    crow += n * (block_rows + 1) + block_row;
    col += n * keep;
    values += n * keep * BR * BC;
    const uint height = (uint)min((ulong)BR, rows - block_row * BR);
    global const float *row = ROW(x, n * rows + block_row * BR);
    /* A mask that marks more than `keep` blocks must not lead beyond the values. */
    const ulong begin = min((ulong)crow[0], keep), end = min((ulong)crow[1], keep);
#if WEIGHTED
    scores += scores_offset + (n * block_rows + block_row) * block_cols;
    const float threshold = thresholds[thresholds_offset + n];
#define WEIGHT(k) weight_of(scores[col[k]], threshold)
#else
#define WEIGHT(k) 1.0f
#endif
#if LOCAL == 1
    for (ulong k = begin; k < end; k++) {
        const ulong c = (ulong)col[k] * BC;
        const uint width = (uint)min((ulong)BC, cols - c);
        const float weight = WEIGHT(k);
        for (uint r = 0; r < BR; r++)
            copy_row(
                row + r * x_ld + c, r < height ? width : 0, weight, values + (k * BR + r) * BC);
    }
#else
    for (ulong e = begin * BR * BC + get_local_id(0); e < end * BR * BC; e += LOCAL) {
        const ulong k = e / (BR * BC);
        const uint r = (uint)(e / BC % BR);
        const ulong c = (ulong)col[k] * BC + e % BC;
        values[e] = r < height && c < cols ? WEIGHT(k) * row[r * x_ld + c] : 0.0f;
    }
#endif
}

kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bsr_unpack(const ulong rows,
    const ulong cols, const ulong block_rows, const ulong keep,
    global const float *restrict values, global const int *restrict crow,
    global const int *restrict col, MAT_OUT_RESTRICT(y))
{
    const ulong n = get_group_id(0) / block_rows;
    const ulong block_row = get_group_id(0) % block_rows;
    crow += n * (block_rows + 1) + block_row;
    col += n * keep;
    values += n * keep * BR * BC;
    const ulong height = min((ulong)BR, rows - block_row * BR);
    global float *row = ROW(y, n * rows + block_row * BR);
    for (ulong e = get_local_id(0); e < height * cols; e += LOCAL)
        row[e / cols * y_ld + e % cols] = 0.0f;
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (ulong e = (ulong)crow[0] * BR * BC + get_local_id(0); e < (ulong)crow[1] * BR * BC;
         e += LOCAL) {
        const ulong r = e / BC % BR;
        const ulong c = (ulong)col[e / (BR * BC)] * BC + e % BC;
        if (r < height && c < cols)
            row[r * y_ld + c] = values[e];
    }
}
