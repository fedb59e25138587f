/* Rows rotated in place: x = x R or, with BACK 1, x R^T; rotate.clh has R.
 *
 * Work-group i takes rows [i * run, (i + 1) * run); its LOCAL work-items take BLOCK columns in turn. No local
 * memory. LOCAL: any >= 1. BACK: 0 or 1. */
#include "prelude/rotate.clh"
#if !defined(LOCAL) || !defined(BACK)
#error "rotate.cl needs LOCAL and BACK"
#endif

#define ROTATE(c, units)                                                                           \
    do {                                                                                           \
        float16 v[units];                                                                          \
        UNROLLED(k, units)                                                                         \
            v[k] = LOAD16(at + (c) + 16 * k);                                                      \
        ROTATE_BLOCK(v, units, BACK);                                                              \
        UNROLLED(k, units)                                                                         \
            STORE16(v[k], at + (c) + 16 * k);                                                      \
    } while (0)

KERNEL_OF(LOCAL) rotate_rows(const ulong run, const ulong rows, const ulong cols, MAT_OUT_RESTRICT(x))
{
    const ulong spans = (cols + BLOCK - 1) / BLOCK;
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    const ulong count = first < last ? (last - first) * spans : 0;
    for (ulong i = get_local_id(0); i < count; i += LOCAL) {
        const ulong c = i % spans * BLOCK, left = cols - c;
        global float *at = ROW(x, first + i / spans) + c;
        if (left >= BLOCK)
            ROTATE(0, BLOCK_UNITS);
        else {
            EACH_NARROWER(0, left, ROTATE)
        }
    }
}
