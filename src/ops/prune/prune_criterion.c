/* Which blocks a criterion keeps, and how it weighs them. */
#include "ops/prune/prune_private.h"

/* Priority sampling; the thresholds come from the selection. */
static clprune_status sample(clprune_context *context, const clprune_bsr *bsr, size_t blocks,
    uint64_t seed, clprune__region scores, clprune__region priorities, clprune__region thresholds)
{
    (void)thresholds;
    return clprune__draw(context, bsr, blocks, seed, scores, priorities);
}

static const clprune__criterion largest = {.norms = true};
static const clprune__criterion sampled = {.norms = true, .limits = true, .prioritise = sample};

extern const clprune__criterion clprune__criterion_random;

/* In the order of clprune_criterion. */
static const clprune__criterion *const criteria[] = {
    &largest, &sampled, &clprune__criterion_random};

const clprune__criterion *clprune__criterion_of(clprune_criterion criterion)
{
    return (unsigned)criterion < sizeof criteria / sizeof criteria[0] ? criteria[criterion] : NULL;
}
