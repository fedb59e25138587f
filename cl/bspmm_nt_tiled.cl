/* BSpMM nt for GPUs: the same partial sums as bspmm_nt_vector.cl, with PANEL = 64 rows of dw.
 *
 * Group (Q, p, split) computes partial[split][Q][p][0 .. 63]: work-item i holds output Q * 64 + i
 * and walks the kept blocks of row p in each sample of `split`, BC products a block. The values of
 * a block are the same for all work-items; each reads its own row of dy along the columns.
 * No local memory. */
#if !defined(BC) || !defined(BR)
#error "bspmm_nt_tiled.cl needs BC and BR"
#endif
#define PANEL 64

kernel __attribute__((reqd_work_group_size(PANEL, 1, 1))) void bspmm_nt_tiled(const ulong batch,
    const ulong rows, const ulong cols, const ulong outputs, const ulong block_rows,
    const ulong keep, MAT_IN_RESTRICT(dy), global const float *restrict values,
    global const int *restrict crow, global const int *restrict col,
    const ulong partial_offset, global float *restrict partial)
{
    const uint me = get_local_id(0);
    const ulong output = get_group_id(0) * PANEL + me;
    const ulong p = get_group_id(1);
    const ulong split = get_group_id(2), splits = get_num_groups(2);
    float sum = 0.0f;
    for (ulong n = split * batch / splits; n < (split + 1) * batch / splits; n++) {
        global const int *row_start = crow + n * (block_rows + 1) + p / BR;
        for (int k = row_start[0]; k < row_start[1] && output < outputs; k++) {
            const ulong first = (ulong)col[n * keep + k] * BC;
            const uint width = (uint)min((ulong)BC, cols - first);
            global const float *x = values + ((n * keep + k) * BR + p % BR) * BC;
            global const float *d = ROW(dy, n * outputs + output) + first;
            for (uint c = 0; c < width; c++)
                sum = fma(x[c], d[c], sum);
        }
    }
    partial[partial_offset + ((split * get_num_groups(0) + get_group_id(0)) * rows + p) * PANEL + me] = sum;
}
