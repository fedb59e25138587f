/* Quantised matrices of rotated rows read back; quantise.clh has the layout, rotate.clh R.
 *
 *     ADD 0              y[r][c] = (q R^T)[r][c], with q[r][c] = zero + scale * code[r][c]
 *     ADD 1              y[r][c] = x[r][c] + that; with LAYERSCALE x[r][c] + ls[c] * that. y may be x
 *
 * Work-group i takes rows [i * run, (i + 1) * run); its LOCAL work-items take BLOCK columns in turn. No local
 * memory. LOCAL: any >= 1. BLOCK: divides GROUP. */
#include "prelude/quantise.clh"
#include "prelude/rotate.clh"
#if !defined(BITS) || !defined(LOCAL) || !defined(ADD)
#error "dequantise_rotated.cl needs BITS, LOCAL and ADD"
#endif
#ifndef LAYERSCALE
#define LAYERSCALE 0 /* 0: ls is not touched */
#endif

/* v at columns c .. c + 15 of row r, of which the first `left` exist. */
#if ADD && LAYERSCALE
#define SUM_OF(v, r, c, left) fma(load_part(ROW(ls, 0) + (c), left, 0.0f), v, load_part(ROW(x, r) + (c), left, 0.0f))
#elif ADD
#define SUM_OF(v, r, c, left) (load_part(ROW(x, r) + (c), left, 0.0f) + v)
#else
#define SUM_OF(v, r, c, left) (v)
#endif

/* Columns at .. of row `row`: a block of `units` vectors, or with 0 the last left % 16, which are not rotated. */
#define READ_BLOCK(at, units)                                                                      \
    do {                                                                                           \
        float16 v[(units) + ((units) == 0)];                                                       \
        UNROLLED(k, (units) + ((units) == 0))                                                      \
            v[k] = dequantise_unit(codes + WORDS((at) + 16 * k), group);                           \
        ROTATE_BLOCK(v, units, true);                                                              \
        UNROLLED(k, (units) + ((units) == 0))                                                      \
            store_part(SUM_OF(v[k], row, c + (at) + 16 * k, (units) == 0 ? left % 16 : 16),        \
                ROW(y, row) + c + (at) + 16 * k, (units) == 0 ? left % 16 : 16);                   \
    } while (0)

KERNEL_OF(LOCAL) dequantise_rotated(const ulong run, const ulong rows, const ulong cols,
    QUANTISED_IN(q), IF(ADD)(MAT_IN(x) COMMA MAT_IN(ls) COMMA) MAT_OUT(y))
{
    const ulong spans = (cols + BLOCK - 1) / BLOCK;
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    const ulong count = first < last ? (last - first) * spans : 0;
    for (ulong i = get_local_id(0); i < count; i += LOCAL) {
        const ulong row = first + i / spans, c = i % spans * BLOCK, left = cols - c;
        const quantised from = QUANTISED(q, row);
        const uint group = GROUP_WORD(from.groups, c);
        global const uint *codes = from.codes + WORDS(c);
        if (left >= BLOCK) {
            READ_BLOCK(0, BLOCK_UNITS);
            continue;
        }
        EACH_NARROWER(0, left, READ_BLOCK)
        if (left % 16 != 0)
            READ_BLOCK(left / 16 * 16, 0);
    }
}
