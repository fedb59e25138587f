/* scores[n * blocks + i] = norm of block i of sample n, with CENTRED of x - row n of `centre`; see score.clh.
 *
 * Block i = (I, J) of sample n covers BR rows of x from n * rows + I * BR on and BC columns from J * BC on,
 * as far as the sample has them: padding counts as zero.
 *
 * With `groups` groups a sample, group g takes `run` block rows from I = g % groups * run on of sample n =
 * batch - 1 - g / groups; its LOCAL work-items take blocks J in turn. Samples are scored last to
 * first: the last ones, just written, are still cached, and the first ones stay cached for packing. No local
 * memory. */
#include "prelude/score.clh"
#ifndef NORM
#error "prune_score.cl needs NORM"
#endif
KERNEL_OF(LOCAL) prune_score(const ulong rows, const ulong cols, const ulong block_rows,
    const ulong run, const ulong block_cols, MAT_IN_RESTRICT(x),
    CENTRE_PARAMETER REGION_OUT(float, scores))
{
    const ulong groups = (block_rows + run - 1) / run;
    const ulong n = (get_num_groups(0) - 1 - get_group_id(0)) / groups;
    const ulong first = get_group_id(0) % groups * run;
    for (ulong block_row = first; block_row < min(first + run, block_rows); block_row++)
        score_blocks(ROW(x, n * rows + block_row * BR), x_ld,
            (uint)min((ulong)BR, rows - block_row * BR), cols, get_local_id(0), CENTRE_ROW(n),
            scores + scores_offset + (n * block_rows + block_row) * block_cols);
}
