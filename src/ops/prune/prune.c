/* Pruning as a whole. */
#include "clprune/prune.h"

#include <limits.h>

#include "core/checked.h"
#include "ops/prune/prune_private.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/context/check.h"

static bool is_norm(clprune_norm norm)
{
    return norm == CLPRUNE_NORM_L2 || norm == CLPRUNE_NORM_L1 || norm == CLPRUNE_NORM_MAX;
}

clprune_status clprune__prune(clprune_context *context, clprune_norm norm,
    clprune_criterion criterion, uint64_t seed, clprune__region scores, clprune_mat x,
    const clprune_mat *centre, const clprune_bsr *bsr, cl_event *event)
{
    clprune_bsr_sizes sizes;
    SCRATCH_SCOPE(context);
    clprune__region priorities, mask = {0}, thresholds = {0};
    const clprune__region none = {0};
    const clprune__criterion *rule = clprune__criterion_of(criterion);
    TRY(clprune__check_bsr_dense(context, bsr, "x", x, &sizes));
    REQUIRE(
        is_norm(norm), CLPRUNE_INVALID_ARGUMENT, "norm is %d, expected a clprune_norm", (int)norm);
    REQUIRE(rule != NULL, CLPRUNE_INVALID_ARGUMENT,
        "criterion is %d, expected a clprune_criterion (clprune/prune.h)", (int)criterion);
    const clprune_bsr_desc *desc = &bsr->desc;
    if (desc->keep == sizes.blocks) {
        TRY(clprune__bsr_pack(context, x, centre, mask, NULL, bsr, &sizes, event));
        return CLPRUNE_SUCCESS;
    }
    const size_t blocks = desc->batch * sizes.blocks;
    const bool scored = scores.buffer != NULL;
    if (!scored)
        TRY(clprune__scratch_array(context, blocks, sizeof(float), &scores));
    TRY(clprune__scratch_array(context, blocks, 1, &mask));
    priorities = scores;
    const bool drawn = rule->prioritise != NULL && desc->keep > 0;
    if (rule->norms && desc->keep > 0 && !scored)
        TRY(clprune__prune_score(context, norm, desc, &sizes, x, centre, scores, NULL));
    if (drawn) {
        TRY(clprune__scratch_array(context, blocks, sizeof(float), &priorities));
        TRY(clprune__scratch_array(context, desc->batch, sizeof(float), &thresholds));
        TRY(rule->prioritise(context, bsr, sizes.blocks, seed, scores, priorities, thresholds));
    }
    TRY(clprune__prune_select(context, desc->batch, sizes.blocks, desc->keep, priorities, mask,
        rule->limits ? thresholds : none, NULL));
    const clprune__weights weights = {scores, thresholds};
    return clprune__bsr_pack(context, x, centre, mask, drawn ? &weights : NULL, bsr, &sizes, event);
}

clprune_status clprune_prune(clprune_context *context, clprune_norm norm,
    clprune_criterion criterion, uint64_t seed, clprune_mat x, const clprune_bsr *bsr,
    cl_event *event)
{
    ENTER(context);
    return clprune__prune(
        context, norm, criterion, seed, (clprune__region){0}, x, NULL, bsr, event);
}
