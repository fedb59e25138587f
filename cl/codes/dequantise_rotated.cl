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
#define WRITE(v, r, c, left) store_part(SUM_OF(v, r, c, left), ROW(y, r) + (c), left)

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
            float16 v[BLOCK_UNITS];
            UNROLLED(k, BLOCK_UNITS)
                v[k] = dequantise_unit(codes + WORDS(16 * k), group);
            rotate_block(v, true);
            UNROLLED(k, BLOCK_UNITS)
                WRITE(v[k], row, c + 16 * k, 16);
        } else {
            float16 v[BLOCK_UNITS];
            for (uint k = 0; 16 * k < left; k++)
                v[k] = dequantise_unit(codes + WORDS(16 * k), group);
            rotate_rest(v, (uint)left, true);
            for (uint k = 0; 16 * k < left; k++)
                WRITE(v[k], row, c + 16 * k, left - 16 * k);
        }
    }
}
