/* Elements in other places: each place of y is a sum of places of x, of which there may be none.
 *
 *     y[n][i] = sum over first[i] <= k < first[i + 1] of x[n][from[k]]
 *
 * With RUNS a place is `cols` neighbours, and row r of the loops is place r % lines of sample r / lines; else it is one
 * element, and a row has `cols` of them. A row of x and of y is a sample. The row `table` has, from its element `at` on,
 * places + 1 ints `first`, then the ints `from`. Row-wise, see rowwise.clh. No local memory. */
#include "prelude/rowwise.clh"
#ifndef RUNS
#error "gather.cl needs RUNS"
#endif

KERNEL_OF(LOCAL) gather(ROWWISE_SIZES, const ulong lines, const ulong places, const ulong at, MAT_IN_RESTRICT(table),
    MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(y))
{
    global const float *first = ROW(table, 0) + at, *from = first + places + 1;
    FOR_ROWS(r) {
        const ulong n = r / lines, line = r % lines;
        global const float *in = ROW(x, n);
        global float *to = ROW(y, n) + line * cols;
        if (RUNS) {
            const int begin = as_int(first[line]), end = as_int(first[line + 1]);
            FOR_VECTORS(c) {
                vec sum = 0;
                for (int k = begin; k < end; k++)
                    sum += load_part(in + as_int(from[k]) * cols + c, cols - c, 0);
                store_part(sum, to + c, cols - c);
            }
        } else {
            for (ulong c = get_local_id(0); c < cols; c += LOCAL) {
                float sum = 0;
                for (int k = as_int(first[line * cols + c]); k < as_int(first[line * cols + c + 1]); k++)
                    sum += in[as_int(from[k])];
                to[c] = sum;
            }
        }
    }
}
