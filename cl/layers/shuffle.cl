/* y[r][k * groups + g] = x[r][g * size + k],  size = cols / groups
 *
 * Row-wise, see rowwise.clh, whose vectors are not used: work-items take elements in turn, g or k, whichever has more.
 * No local memory. */
#include "prelude/rowwise.clh"

KERNEL_OF(LOCAL) shuffle_features(ROWWISE_SIZES, const ulong groups, MAT_IN_RESTRICT(x),
    MAT_OUT_RESTRICT(y))
{
    const ulong size = cols / groups, few = min(groups, size), many = max(groups, size);
    FOR_ROWS(r)
        for (ulong i = 0; i < few; i++)
            for (ulong j = get_local_id(0); j < many; j += LOCAL) {
                const ulong g = groups < size ? i : j, k = groups < size ? j : i;
                AT(y, r, k * groups + g) = AT(x, r, g * size + k);
            }
}
