/* Quantised matrices read back; quantise.clh has the layout.
 *
 *     dequantise         y[r][c] = zero + scale * code[r][c]
 *     dequantise_add     y[r][c] = x[r][c] + that; with LAYERSCALE x[r][c] + ls[c] * that. y may be x
 *
 * Work-group i takes rows [i * run, (i + 1) * run); its LOCAL work-items take columns in turn, on CPUs
 * (LOCAL 1) sixteen at a time. No local memory. LOCAL: any >= 1. */
#include "prelude/quantise.clh"
#if !defined(BITS) || !defined(LOCAL)
#error "dequantise.cl needs BITS and LOCAL"
#endif

KERNEL_OF(LOCAL) dequantise(const ulong run, const ulong rows, const ulong cols, QUANTISED_IN(q),
    MAT_OUT_RESTRICT(y))
{
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    for (ulong row = first; row < last; row++) {
        const quantised from = QUANTISED(q, row);
        ulong c = get_local_id(0);
#if LOCAL == 1
        for (; c + 16 <= cols; c += 16)
            STORE16(dequantise16(from.codes, from.groups, c), ROW(y, row) + c);
#endif
        for (; c < cols; c += LOCAL)
            AT(y, row, c) = dequantise_one(from.codes, from.groups, c);
    }
}

#ifndef LAYERSCALE
#define LAYERSCALE 0 /* 0: ls is not touched */
#endif

KERNEL_OF(LOCAL) dequantise_add(const ulong run, const ulong rows, const ulong cols, QUANTISED_IN(q),
    MAT_IN(x), MAT_IN(ls), MAT_OUT(y))
{
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    for (ulong row = first; row < last; row++) {
        const quantised from = QUANTISED(q, row);
        ulong c = get_local_id(0);
#if LOCAL == 1
        for (; c + 16 <= cols; c += 16) {
            const float16 value = dequantise16(from.codes, from.groups, c);
            const float16 factor = LAYERSCALE ? LOAD16(ROW(ls, 0) + c) : (float16)(1.0f);
            STORE16(fma(factor, value, LOAD16(ROW(x, row) + c)), ROW(y, row) + c);
        }
#endif
        for (; c < cols; c += LOCAL) {
            const float value = dequantise_one(from.codes, from.groups, c);
            AT(y, row, c) = fma(LAYERSCALE ? AT(ls, 0, c) : 1.0f, value, AT(x, row, c));
        }
    }
}
