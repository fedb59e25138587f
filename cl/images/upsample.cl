/* Nearest-neighbour upsampling of channels-last images of `width` pixels a line by factors `tall` and
 * `wide`.
 *
 *     forward    y[n, i, j] = x[n, i / tall, j / wide]
 *     backward   dx[n, i, j] = sum over a < tall, b < wide of dy[n, i * tall + a, j * wide + b]
 *
 * Row-wise over the rows that are written, see rowwise.clh. Sums are in the order of a, then b. No local
 * memory. */
#include "prelude/rowwise.clh"

KERNEL_OF(LOCAL) upsample_forward(ROWWISE_SIZES, const ulong width, const ulong tall,
    const ulong wide, MAT_IN_RESTRICT(x), MAT_OUT_RESTRICT(y))
{
    FOR_ROWS(r) {
        const ulong line = r / (width * wide), j = r % (width * wide);
        const ulong from = line / tall * width + j / wide;
        FOR_VECTORS(c)
            PUT(GET(x, from, c), y, r, c);
    }
}

KERNEL_OF(LOCAL) upsample_backward(ROWWISE_SIZES, const ulong width, const ulong tall,
    const ulong wide, MAT_IN_RESTRICT(dy), MAT_OUT_RESTRICT(dx))
{
    FOR_ROWS(r) {
        const ulong first = r / width * tall * width * wide + r % width * wide;
        FOR_VECTORS(c) {
            vec sum = 0;
            for (ulong a = 0; a < tall; a++)
                for (ulong b = 0; b < wide; b++)
                    sum += GET(dy, first + a * width * wide + b, c);
            PUT(sum, dx, r, c);
        }
    }
}
