/* BSpMM nn for GPUs: y_n = alpha * xs_n * w + beta * y_n. xs_n is sample n of values, crow and col, each from
 * its offset on.
 *
 * Group g takes block row I = g % block_rows of sample n = g / block_rows: up to BR rows of y. Its
 * LOCAL work-items take outputs in turn and walk the kept blocks of the row. With a beta of 0 y is
 * not read. No local memory. */
#include "prelude/common.clh"
#if !defined(LOCAL) || !defined(BR) || !defined(BC)
#error "bspmm_nn.cl needs LOCAL, BR and BC"
#endif

KERNEL_OF(LOCAL) bspmm_nn(const ulong rows, const ulong cols, const ulong outputs,
    const ulong block_rows, const ulong keep, const float alpha, const float beta,
    REGION_IN(float, values), REGION_IN(int, crow), REGION_IN(int, col), MAT_IN_RESTRICT(w),
    MAT_OUT_RESTRICT(y))
{
    const ulong n = get_group_id(0) / block_rows;
    const ulong block_row = get_group_id(0) % block_rows;
    crow += crow_offset + n * (block_rows + 1) + block_row;
    col += col_offset + n * keep;
    values += values_offset + n * keep * BR * BC;
    const int begin = crow[0], end = crow[1];
    const ulong height = min((ulong)BR, rows - block_row * BR);
    for (ulong r = 0; r < height; r++) {
        global float *y_row = ROW(y, n * rows + block_row * BR + r);
        for (ulong o = get_local_id(0); o < outputs; o += LOCAL) {
            float sum = 0.0f;
            for (int k = begin; k < end; k++) {
                const ulong first = (ulong)col[k] * BC;
                const uint width = (uint)min((ulong)BC, cols - first);
                global const float *x = values + ((ulong)k * BR + r) * BC;
                for (uint c = 0; c < width; c++)
                    sum = fma(x[c], AT(w, first + c, o), sum);
            }
            sum *= alpha;
            y_row[o] = beta != 0 ? fma(beta, y_row[o], sum) : sum;
        }
    }
}
