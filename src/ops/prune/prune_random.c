/* RANDOM: each set of `keep` blocks of a sample is as likely as any other. All blocks score 1, so
 * that their priorities 1 / u rank them at random; a kept one is scaled by blocks / keep. */
#include "ops/prune/prune_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/transfer.h"

static clprune_status fill(clprune_context *context, float value, clprune__region to, size_t count)
{
    return clprune__transfer_fill(context, &value, sizeof value, to.buffer,
        to.offset * sizeof value, count * sizeof value, NULL);
}

static clprune_status prioritise(clprune_context *context, const clprune_bsr *bsr, size_t blocks,
    uint64_t seed, clprune__region scores, clprune__region priorities, clprune__region thresholds)
{
    const size_t batch = bsr->desc.batch;
    TRY(fill(context, 1.0f, scores, batch * blocks));
    TRY(fill(context, (float)((double)blocks / (double)bsr->desc.keep), thresholds, batch));
    return clprune__draw(context, bsr, blocks, seed, scores, priorities);
}

const clprune__criterion clprune__criterion_random = {.prioritise = prioritise};
