/* The axes of arrays in another order.
 *
 *     y[..., i1, i0, c] = x[sum of i * its stride + c * step],    a row of y for each of its places ..., i1, i0
 *
 * AXES axes i0, i1, ... of y beside its last one have extents e0, e1, ... and strides s0, s1, ... in x; what is left of
 * a row's number then counts samples, rows of the matrices. A sample has `places` of them. Others are not read. With RUNS, step is 1: elements
 * are copied as vectors. Row-wise, see rowwise.clh. No local memory. */
#include "prelude/rowwise.clh"
#if !defined(AXES) || !defined(RUNS)
#error "permute.cl needs AXES and RUNS"
#endif

#define TAKE(k)                                                                                    \
    if (AXES > k) {                                                                                \
        at += left % (uint)e##k * s##k;                                                            \
        left /= (uint)e##k;                                                                        \
    }

KERNEL_OF(LOCAL) permute(ROWWISE_SIZES, const ulong places, const ulong step, const ulong e0, const ulong s0,
    const ulong e1, const ulong s1, const ulong e2, const ulong s2, const ulong e3, const ulong s3, const ulong e4,
    const ulong s4, const ulong e5, const ulong s5, const ulong e6, const ulong s6, MAT_IN_RESTRICT(x),
    MAT_OUT_RESTRICT(y))
{
    FOR_ROWS(r) {
        uint left = (uint)r;
        ulong at = 0;
        TAKE(0) TAKE(1) TAKE(2) TAKE(3) TAKE(4) TAKE(5) TAKE(6)
        global const float *from = ROW(x, left) + at;
        global float *to = ROW(y, left) + (r - left * places) * cols;
        if (RUNS) {
            FOR_VECTORS(c)
                store_part(load_part(from + c, cols - c, 0), to + c, cols - c);
        } else {
            for (ulong c = get_local_id(0); c < cols; c += LOCAL)
                to[c] = from[c * step];
        }
    }
}
