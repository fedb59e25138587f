#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/launch.h"

static const clprune__kernel_def gemm_vector_kernel = {"products/gemm_vector.cl", "gemm_vector"};
static const clprune__kernel_def gemm_vector_quantised_kernel = {
    "products/gemm_vector.cl", "gemm_vector_quantised"};

/* The rows of op(a) that a group multiplies with a panel: whole tiles and, if a transposed a is
 * packed, whole vectors of 16. */
static size_t block_rows(size_t most, size_t tile_rows, bool packed)
{
    size_t rows = clprune__round_up(most, tile_rows);
    while (packed && rows % 16 != 0)
        rows += tile_rows;
    return rows;
}

clprune_status clprune__gemm_vector(
    clprune_context *context, clprune__gemm_job *job, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__tuning *tuning = &context->ops->tuning;
    /* The tuned tiles, but narrower and higher ones where most of a tile would be padding. */
    size_t vectors = tuning->gemm.tile_vectors;
    while (vectors > 1 && job->n <= 16 * (vectors - 1))
        vectors--;
    const size_t tile_rows =
        (job->transpose_a ? tuning->gemm.packed_accumulators : tuning->gemm.accumulators) / vectors;
    const size_t panels = clprune__ceil_div(job->n, 16 * vectors);
    const size_t most_rows =
        block_rows(job->transpose_a ? tuning->gemm.packed_rows : tuning->gemm.block_rows, tile_rows,
            job->transpose_a);
    const size_t floats_a_row = 16 * vectors + (job->transpose_a ? most_rows : 0);
    const size_t most_depth = clprune__panel_rows(context,
        job->transpose_a ? tuning->gemm.packed_depth : tuning->gemm.panel_depth, floats_a_row);
    const size_t depth =
        clprune__ceil_div(job->k, clprune__ceil_div(job->k, most_depth)); /* equal panels */
    /* Blocks must not cross from one depth to the next. */
    const size_t width = clprune__max(job->scores.width, 1);
    if (job->batch != 1 || job->transpose_a || job->quantised_b != NULL ||
        (depth < job->k && depth % width != 0))
        job->scores.to.buffer = NULL;
    const size_t ranges = clprune__ceil_div(job->m, most_rows);
    /* Runs of panels: as long as enough groups for the device remain. */
    const size_t wanted = (size_t)context->facts.compute_units * tuning->gemm.groups_per_unit;
    const size_t run = clprune__max(
        1, clprune__min(panels, panels * ranges * job->batch / clprune__max(wanted, 1)));
    const size_t local[3] = {1, 1, 1};
    const size_t global[3] = {clprune__ceil_div(panels, run), ranges, job->batch};
    clprune__defines defines = {0};
    clprune__define(&defines, "V", vectors);
    clprune__define(&defines, "MR", tile_rows);
    clprune__define(&defines, "KC", most_depth);
    clprune__define(&defines, "MC", most_rows);
    clprune__define(&defines, "TRANSPOSE_A", job->transpose_a);
    clprune__define(&defines, "TRANSPOSE_B", job->transpose_b);
    clprune__define(&defines, "BIAS", job->bias);
    if (job->scores.to.buffer != NULL)
        clprune__score_defines(
            job->scores.norm, (clprune_block){1, job->scores.width}, 1, &defines);
    else if (job->quantised_b != NULL)
        clprune__quantised_defines(job->quantised_b, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context,
        job->quantised_b != NULL ? &gemm_vector_quantised_kernel : &gemm_vector_kernel, &defines,
        &launch));
    clprune__arg_ulong(&launch, job->m);
    clprune__arg_ulong(&launch, job->n);
    clprune__arg_ulong(&launch, job->k);
    clprune__arg_uint(&launch, (cl_uint)depth);
    clprune__arg_ulong(&launch, run);
    clprune__arg_gemm(&launch, job);
    if (job->scores.to.buffer != NULL) {
        clprune__arg_region(&launch, job->scores.to);
    }
    TRY(clprune__launch_enqueue(&launch, 3, global, local, event));
done:
    return status;
}
