/* Channels-last images of other sizes: each pixel of y is a sum of pixels of x, by a sparse matrix along each axis.
 *
 *     y[n, i, j] = sum over the entries a of row i of the one at `tall`, then b of row j of the one at `wide`, of
 *                  weight[a] * weight[b] * x[n, from[a], from[b]]
 *
 * A matrix of r rows with m entries is, from its place in the row `table` on, r + 1 ints, the first entry of each row
 * and m; m ints `from`; m floats `weight`. Row-wise over y, see rowwise.clh. No local memory. */
#include "prelude/rowwise.clh"

KERNEL_OF(LOCAL) resample(ROWWISE_SIZES, const ulong x_height, const ulong x_width, const ulong height, const ulong width,
    const ulong tall, const ulong wide, MAT_IN_RESTRICT(table), MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(y))
{
    global const float *down = ROW(table, 0) + tall, *across = ROW(table, 0) + wide;
    const ulong entries = as_int(down[height]), others = as_int(across[width]);
    FOR_ROWS(r) {
        const ulong n = r / width / height, i = r / width % height, j = r % width;
        const ulong first = as_int(down[i]), last = as_int(down[i + 1]);
        const ulong begin = as_int(across[j]), end = as_int(across[j + 1]);
        FOR_VECTORS(c) {
            vec sum = 0;
            for (ulong a = first; a < last; a++) {
                const ulong line = n * x_height + as_int(down[height + 1 + a]);
                for (ulong b = begin; b < end; b++) {
                    const float weight = down[height + 1 + entries + a] * across[width + 1 + others + b];
                    const ulong pixel = line * x_width + as_int(across[width + 1 + b]);
                    sum = fma((vec)(weight), GET(x, pixel, c), sum);
                }
            }
            PUT(sum, y, r, c);
        }
    }
}
