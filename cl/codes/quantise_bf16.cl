/* Quantised matrices of 16 bits: codes = x rounded to bf16, ties to even. Magnitudes below 2^-126 become zero;
 * NaN stays NaN. quantise.clh has the layout, pairs.clh the rounding, which is that of products of bf16.
 *
 * Work-group i takes rows [i * run, (i + 1) * run); its LOCAL work-items take words of two columns in turn, on
 * CPUs (LOCAL 1) sixteen at a time. No local memory. LOCAL: any >= 1. BF16: 1 or 2; BITS: 16. */
#include "prelude/pairs.clh"
#include "prelude/quantise.clh"
#if !defined(LOCAL) || !defined(BF16) || BITS != 16
#error "quantise_bf16.cl needs LOCAL, BF16 and BITS 16"
#endif

KERNEL_OF(LOCAL) quantise_bf16(
    const ulong run, const ulong rows, const ulong cols, MAT_IN_RESTRICT(x), QUANTISED_OUT(q))
{
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    const ulong words = (cols + 15) / 16 * 8;
    (void)q_groups;
    for (ulong row = first; row < last; row++) {
        global const float *from = ROW(x, row);
        global uint *codes = q_codes + q_codes_offset + row * q_ld;
        ulong word = get_local_id(0);
#if LOCAL == 1
        for (; 2 * word + 32 <= cols; word += 16)
            *(global uint16_anywhere *)(codes + word) =
                round32(LOAD16(from + 2 * word), LOAD16(from + 2 * word + 16));
#endif
        for (; word < words; word += LOCAL) {
            const ulong c = 2 * word;
            codes[word] = round_pair(c < cols ? from[c] : 0.0f, c + 1 < cols ? from[c + 1] : 0.0f);
        }
    }
}
