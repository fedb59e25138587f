/* Pruning: its steps one by one, and as a whole. */
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

clprune_status clprune_prune_score(clprune_context *context, clprune_norm norm,
    const clprune_bsr_desc *desc, clprune_mat x, cl_mem scores, cl_event *event)
{
    ENTER_CONTEXT(context);
    clprune_bsr_sizes sizes;
    REQUIRE(
        is_norm(norm), CLPRUNE_INVALID_ARGUMENT, "norm is %d, expected a clprune_norm", (int)norm);
    TRY(clprune__check_bsr_desc(context, desc, &sizes));
    TRY(clprune__check_mat(context, "x", x, desc->batch * desc->rows, desc->cols));
    const size_t blocks = desc->batch * sizes.blocks;
    const clprune__bytes written = {scores, 0, blocks * sizeof(float)};
    TRY(clprune__check_buffer(context, "scores", scores, blocks, sizeof(float)));
    TRY(clprune__check_bytes_apart(context, "scores", written, "x", clprune__bytes_of(x)));
    return clprune__prune_score(
        context, norm, desc, &sizes, x, NULL, (clprune__region){scores, 0, sizeof(float)}, event);
}

clprune_status clprune_prune_select(clprune_context *context, size_t batch, size_t blocks,
    size_t keep, cl_mem scores, cl_mem mask, cl_event *event)
{
    ENTER_CONTEXT(context);
    size_t count;
    REQUIRE(blocks <= INT_MAX && clprune__mul(batch, blocks, &count), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu blocks, expected at most 2^31 - 1 blocks and SIZE_MAX in all", batch,
        blocks);
    REQUIRE(keep <= blocks, CLPRUNE_INVALID_ARGUMENT,
        "keep is %zu, expected at most the %zu blocks", keep, blocks);
    TRY(clprune__check_buffer(context, "scores", scores, count, sizeof(float)));
    TRY(clprune__check_buffer(context, "mask", mask, count, 1));
    TRY(clprune__check_bytes_apart(context, "mask", (clprune__bytes){mask, 0, count}, "scores",
        (clprune__bytes){scores, 0, count * sizeof(float)}));
    return clprune__prune_select(context, batch, blocks, keep,
        (clprune__region){scores, 0, sizeof(float)}, (clprune__region){mask, 0, 1},
        (clprune__region){0}, event);
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
