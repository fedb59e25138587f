/* The selection of the highest priorities. */
#include "core/checked.h"
#include "ops/prune/prune_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/transfer.h"

static const clprune__kernel_def prune_select_kernel = {"prune/prune_select.cl", "prune_select"};
static const clprune__kernel_def prune_select_vector_kernel = {
    "prune/prune_select_vector.cl", "prune_select_vector"};

/* Bits of a digit of the radix selection. Few, since many work-items count in one histogram. */
#define RADIX 8

clprune_status clprune__prune_select(clprune_context *context, size_t batch, size_t blocks,
    size_t keep, clprune__region scores, clprune__region mask, clprune__region thresholds,
    cl_event *event)
{
    const size_t bytes = batch * blocks;
    SCRATCH_SCOPE(context);
    if (keep == 0 || keep == blocks) {
        const unsigned char flag = keep > 0;
        TRY(clprune__transfer_fill(context, &flag, 1, mask.buffer, mask.offset, bytes, event));
        return CLPRUNE_SUCCESS;
    }
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t local = clprune__group_size(context, 256);
    const size_t global = batch * local;
    clprune__defines defines = {0};
    if (!vector) {
        clprune__define(&defines, "LOCAL", local);
        clprune__define(&defines, "RADIX", RADIX);
    }
    clprune__define(&defines, "THRESHOLD", thresholds.buffer != NULL);
    clprune__launch launch;
    TRY(clprune__launch_begin(
        context, vector ? &prune_select_vector_kernel : &prune_select_kernel, &defines, &launch));
    launch.least_group = 1;
    clprune__arg_ulong(&launch, blocks);
    clprune__arg_uint(&launch, (uint32_t)keep);
    clprune__arg_region(&launch, scores);
    clprune__arg_region(&launch, mask);
    if (vector) {
        clprune__region digits;
        const size_t padded = clprune__round_up(blocks, 64);
        TRY(clprune__scratch_array(context, batch * padded, sizeof(cl_short), &digits));
        clprune__arg_region(&launch, digits);
    }
    if (thresholds.buffer != NULL)
        clprune__arg_region(&launch, thresholds);
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}
