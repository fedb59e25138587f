/* fill: mat[r][c] = value.   mat_scale: mat[r][c] *= factor.   mat_copy: to[r][c] = from[r][c].
 *
 * Row-wise, see rowwise.clh. No local memory. */
#include "prelude/rowwise.clh"

KERNEL_OF(LOCAL) fill(ROWWISE_SIZES, const float value, MAT_OUT(mat))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT((vec)(value), mat, r, c);
}

KERNEL_OF(LOCAL) mat_scale(ROWWISE_SIZES, const float factor, MAT_OUT(mat))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT(factor * GET(mat, r, c), mat, r, c);
}

/* from and to may be windows of one buffer that do not overlap. */
KERNEL_OF(LOCAL) mat_copy(ROWWISE_SIZES, MAT_IN(from), MAT_OUT(to))
{
    FOR_ROWS(r)
        FOR_VECTORS(c)
            PUT(GET(from, r, c), to, r, c);
}
