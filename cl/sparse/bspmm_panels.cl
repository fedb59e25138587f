/* The panels of w that bspmm_nn_vector.cl and bspmm_nn_strip_vector.cl read: units of PANEL = 16 * V outputs.
 *
 *     panels[(p * block_cols + j) * WIDTH + u][i] = w[j * BC + u][p * PANEL + i]
 *
 * for block column j, and with BF16 1 or 2 the pair of rows j * BC + 2 u and the next one (pairs.clh); WIDTH: units
 * of a block. Rows that the block or w does not have, and outputs that w does not have, are 0.
 *
 * Group (p, g) takes the `run` block columns of panel p from g * run on. No local memory. */
#include "prelude/operand.clh"
#include "prelude/tile16.clh"
#if !defined(BC)
#error "bspmm_panels.cl needs BC"
#endif
#define TERMS (BF16 ? 2 : 1)

KERNEL_OF(1) bspmm_panels(const ulong cols, const ulong outputs, const ulong block_cols, const ulong run,
    MAT_IN_RESTRICT(w), REGION_OUT(operand, panels))
{
    const ulong first_output = get_group_id(0) * PANEL, first = get_group_id(1) * run;
    const ulong last = min(first + run, block_cols);
    panels += panels_offset + (get_group_id(0) * block_cols + first) * ((BC + TERMS - 1) / TERMS) * PANEL;
    for (ulong j = first; j < last; j++) {
        const uint depth = (uint)min((ulong)BC, cols - j * BC);
        for (uint c = 0; c < BC; c += TERMS, panels += PANEL) {
            global const float *from = ROW(w, j * BC + c) + first_output;
            FOR_VECTORS_OF_ROW(h) {
                const uint left = (uint)min((ulong)16, outputs - min(outputs, first_output + 16 * h));
                const float16 x = first16(from + 16 * h, c < depth ? left : 0);
#if BF16
                const float16 second = first16(from + w_ld + 16 * h, c + 1 < depth ? left : 0);
                *(global operand16_anywhere *)(panels + 16 * h) = round_pairs(x, second);
#else
                STORE16(x, panels + 16 * h);
#endif
            }
        }
    }
}
