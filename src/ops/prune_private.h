/* Pruning in steps, for layers whose product scores the blocks on its way. */
#ifndef CLPRUNE_OPS_PRUNE_PRIVATE_H
#define CLPRUNE_OPS_PRUNE_PRIVATE_H

#include "clprune/prune.h"
#include "ops/bsr_private.h"

/* Writes the defines of score.clh for a device whose groups have `local` work-items. */
void clprune__score_defines(
    clprune_norm norm, clprune_block block, size_t local, clprune__defines *defines);

/* As clprune_prune, or clprune_prune_sampled from *seed where that is not NULL, with the scores of
 * x where scores.buffer is not NULL. */
clprune_status clprune__prune(clprune_context *context, clprune_norm norm, const uint64_t *seed,
    clprune__region scores, clprune_mat x, const clprune_bsr *bsr, cl_event *event);

#endif
