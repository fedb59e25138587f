/* The forward product and dx of a convolution on GPUs. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/products/gemm_tile.h"
#include "runtime/context/check.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_tiled_kernel = {"conv/conv_tiled.cl", "conv_tiled"};

/* The taps of a launch, whose pixels have a bit for each row and column of them, and the sizes of
 * its table: a program each. Channels of a slice: those of a line of the cache. */
enum { TAP_ROWS = 15, TAP_COLS = 16, FEW_TAPS = 16, SOME_TAPS = 64, SLICE = 32 };

static clprune_status multiply(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event)
{
    if (job->rounded)
        return clprune__conv_gather_bf16(context, job, event);
    const size_t rows = job->batch * job->grid.height * job->grid.width;
    const size_t taps = job->taps.height * job->taps.width;
    const clprune__gemm_tile tile = clprune__gemm_tile_of(context);
    SCRATCH_SCOPE(context);
    clprune_mat w;
    TRY(clprune__conv_weight_rows(context, job, tile.depth, CLPRUNE_VALUES_FP32, &w));
    clprune__defines defines = {0};
    clprune__gemm_tile_defines(context, &defines);
    const size_t from_vector = clprune__conv_row_vector(job->from, job->k);
    clprune__define(&defines, "FV", from_vector);
    clprune__define(&defines, "SLICED", from_vector == 4 && job->k % SLICE == 0 ? SLICE : 0);
    clprune__define(&defines, "TV", clprune__conv_result_vector(job));
    clprune__define(&defines, "TAPS",
        taps <= FEW_TAPS    ? FEW_TAPS
        : taps <= SOME_TAPS ? SOME_TAPS
                            : TAP_ROWS * TAP_COLS);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_tiled_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, rows);
    clprune__arg_uint(&launch, (uint32_t)job->n);
    clprune__arg_uint(&launch, (uint32_t)job->k);
    clprune__arg_uint(&launch, (uint32_t)taps);
    clprune__arg_ulong(&launch, clprune__round_up(taps * job->k, tile.depth));
    return clprune__conv_enqueue_tiles(&launch, job, &tile, w, event);
}

/* More taps are halved: the second half is added to the first one's product. */
clprune_status clprune__conv_gather_tiled(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event)
{
    const clprune_extent taps = job->taps;
    if (taps.height <= TAP_ROWS && taps.width <= TAP_COLS)
        return multiply(context, job, event);
    const bool rows = taps.height > TAP_ROWS;
    const size_t half = (rows ? taps.height : taps.width) / 2;
    clprune__conv_gather first = *job, second = *job;
    *(rows ? &first.taps.height : &first.taps.width) = half;
    *(rows ? &second.taps.height : &second.taps.width) -= half;
    if (rows) {
        second.first_y += (ptrdiff_t)half * job->tap_step_y;
        second.weight_first.height += half * job->weight_step.height;
    } else {
        second.first_x += (ptrdiff_t)half * job->tap_step_x;
        second.weight_first.width += half * job->weight_step.width;
    }
    second.beta = 1.0f;
    second.bias = CLPRUNE_NO_MAT;
    TRY(clprune__conv_gather_tiled(context, &first, NULL));
    return clprune__conv_gather_tiled(context, &second, event);
}
