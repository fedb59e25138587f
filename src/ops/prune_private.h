/* Pruning in steps, for layers whose product scores the blocks on its way. */
#ifndef CLPRUNE_OPS_PRUNE_PRIVATE_H
#define CLPRUNE_OPS_PRUNE_PRIVATE_H

#include <stdbool.h>

#include "clprune/prune.h"
#include "ops/bsr_private.h"

/* Writes the defines of score.clh for a device whose groups have `local` work-items. */
void clprune__score_defines(
    clprune_norm norm, clprune_block block, size_t local, clprune__defines *defines);

/* A criterion ranks blocks by priorities, and may scale those that are kept. */
typedef struct clprune__criterion {
    bool norms;  /* it reads the norms of the blocks */
    bool limits; /* selection writes each sample's highest dropped priority into `thresholds` */

    /* Writes batch * blocks priorities and, unless `limits`, a threshold for each sample; a kept
     * block is then scaled by max(1, threshold / score). scores: the norms or, where they are not
     * read, room for other scores. NULL: the norms are the priorities, and nothing is scaled. */
    clprune_status (*prioritise)(clprune_context *context, const clprune_bsr *bsr, size_t blocks,
        uint64_t seed, clprune__region scores, clprune__region priorities,
        clprune__region thresholds);
} clprune__criterion;

/* NULL outside the list. */
const clprune__criterion *clprune__criterion_of(clprune_criterion criterion);

/* priorities[n][i] = scores[n][i] / u, u uniform in (0, 1] by seed, sample and block. */
clprune_status clprune__draw(clprune_context *context, const clprune_bsr *bsr, size_t blocks,
    uint64_t seed, clprune__region scores, clprune__region priorities);

/* As clprune_prune, with the norms of x where scores.buffer is not NULL. centre: batch x cols, the
 * blocks are those of x less the row of its sample; NULL: of x. */
clprune_status clprune__prune(clprune_context *context, clprune_norm norm,
    clprune_criterion criterion, uint64_t seed, clprune__region scores, clprune_mat x,
    const clprune_mat *centre, const clprune_bsr *bsr, cl_event *event);

#endif
