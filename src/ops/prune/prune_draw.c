/* Random priorities. */
#include "ops/prune/prune_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def prune_draw_kernel = {"prune/prune_draw.cl", "prune_draw"};

clprune_status clprune__draw(clprune_context *context, const clprune_bsr *bsr, size_t blocks,
    uint64_t seed, clprune__region scores, clprune__region priorities)
{
    const size_t local = clprune__group_size(context, 64);
    const size_t global = bsr->desc.batch * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &prune_draw_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, bsr->first, blocks, seed);
    clprune__arg_region(&launch, scores);
    clprune__arg_region(&launch, priorities);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}
