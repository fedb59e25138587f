/* The steps of pruning, and pruning with scores that a layer's product has already computed. */
#ifndef CLPRUNE_OPS_PRUNE_PRIVATE_H
#define CLPRUNE_OPS_PRUNE_PRIVATE_H

#include <stdbool.h>

#include "clprune/prune.h"
#include "ops/sparse/bsr_private.h"

/* Appends the defines of score.clh for groups of `local` work-items. */
void clprune__score_defines(
    clprune_norm norm, clprune_block block, size_t local, clprune__defines *defines);

/* Writes the norms of the blocks of x, checked, to scores. centre: as in clprune__prune. */
clprune_status clprune__prune_score(clprune_context *context, clprune_norm norm,
    const clprune_bsr_desc *desc, const clprune_bsr_sizes *sizes, clprune_mat x,
    const clprune_mat *centre, clprune__region scores, cl_event *event);

/* Writes the mask of the `keep` highest scores of each sample, and the highest dropped one to
 * thresholds unless its buffer is NULL. */
clprune_status clprune__prune_select(clprune_context *context, size_t batch, size_t blocks,
    size_t keep, clprune__region scores, clprune__region mask, clprune__region thresholds,
    cl_event *event);

/* A criterion ranks blocks by priority; it may scale the kept ones. */
typedef struct clprune__criterion {
    bool norms;  /* it reads the norms of the blocks */
    bool limits; /* selection writes each sample's highest dropped priority into `thresholds` */

    /* Writes batch * blocks priorities and, unless `limits`, a threshold for each sample. Kept
     * blocks are then scaled by max(1, threshold / score). `scores` has the norms or, if `norms` is
     * false, room for other scores. NULL: the norms are the priorities, and nothing is scaled. */
    clprune_status (*prioritise)(clprune_context *context, const clprune_bsr *bsr, size_t blocks,
        uint64_t seed, clprune__region scores, clprune__region priorities,
        clprune__region thresholds);
} clprune__criterion;

/* NULL if `criterion` is not a clprune_criterion. */
const clprune__criterion *clprune__criterion_of(clprune_criterion criterion);

/* priorities[n][i] = scores[n][i] / u, u uniform in (0, 1] by seed, sample and block. */
clprune_status clprune__draw(clprune_context *context, const clprune_bsr *bsr, size_t blocks,
    uint64_t seed, clprune__region scores, clprune__region priorities);

/* As clprune_prune. scores: the norms of the blocks of x; with a NULL buffer they are computed.
 * centre: batch x cols, subtracted from the rows of its sample before pruning; NULL: none. */
clprune_status clprune__prune(clprune_context *context, clprune_norm norm,
    clprune_criterion criterion, uint64_t seed, clprune__region scores, clprune_mat x,
    const clprune_mat *centre, const clprune_bsr *bsr, cl_event *event);

#endif
