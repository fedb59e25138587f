/* What the kernels for CPUs share: tiles, panels, and their launch. */
#include "core/checked.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

size_t clprune__gemm_tile_vectors(size_t most, size_t n)
{
    size_t vectors = most;
    while (vectors > 1 && n <= 16 * (vectors - 1))
        vectors--;
    return vectors;
}

size_t clprune__gemm_block_rows(size_t most, size_t tile_rows, bool whole_vectors)
{
    size_t rows = clprune__round_up(most, tile_rows);
    while (whole_vectors && rows % 16 != 0)
        rows += tile_rows;
    return rows;
}

clprune_status clprune__gemm_enqueue_panels(clprune_context *context,
    const clprune__kernel_def *kernel, const clprune__gemm_panels *plan, clprune__defines *defines,
    clprune__gemm_job *job, cl_event *event)
{
    /* Blocks must not cross from one depth to the next. */
    const size_t width = clprune__max(job->scores.width, 1);
    if (job->batch != 1 || job->transpose_a || job->quantised_b != NULL ||
        (plan->depth < job->k && plan->depth % width != 0))
        job->scores.to.buffer = NULL;
    const size_t panels = clprune__ceil_div(job->n, 16 * plan->vectors);
    const size_t units = clprune__max(context->facts.compute_units, 1);
    /* Groups of equal size, as many for each unit; runs of panels as long as enough groups remain.
     */
    size_t ranges = clprune__ceil_div(job->m, plan->most_rows);
    if (ranges > units && job->batch % units != 0)
        ranges = clprune__round_up(ranges, units);
    const size_t rows = clprune__round_up(clprune__ceil_div(job->m, ranges), plan->tile_rows);
    ranges = clprune__ceil_div(job->m, rows);
    const size_t most_run = panels * ranges * job->batch / (units * plan->groups_per_unit);
    size_t runs = clprune__ceil_div(panels, clprune__max(1, clprune__min(panels, most_run)));
    if (ranges * job->batch % units != 0)
        runs = clprune__min(panels, clprune__round_up(runs, units));
    const size_t run = clprune__ceil_div(panels, runs);
    const size_t local[3] = {1, 1, 1};
    const size_t global[3] = {clprune__ceil_div(panels, run), ranges, job->batch};
    clprune__define(defines, "V", plan->vectors);
    clprune__define(defines, "MR", plan->tile_rows);
    clprune__define(defines, "KC", plan->most_depth);
    clprune__define(defines, "MC", plan->most_rows);
    clprune__define(defines, "TRANSPOSE_A", job->transpose_a);
    clprune__define(defines, "TRANSPOSE_B", job->transpose_b);
    if (job->scores.to.buffer != NULL)
        clprune__score_defines(job->scores.norm, (clprune_block){1, job->scores.width}, 1, defines);
    else if (job->quantised_b != NULL)
        clprune__quantised_defines(job->quantised_b, defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, kernel, defines, &launch));
    ARG_ULONGS(&launch, job->m, job->n, job->k);
    clprune__arg_uint(&launch, (cl_uint)plan->depth);
    ARG_ULONGS(&launch, run, rows);
    clprune__arg_gemm(&launch, job);
    clprune__arg_mat(
        &launch, job->bias != CLPRUNE__NO_BIAS ? job->bias_values : clprune__untouched(job->c));
    clprune__arg_uint(&launch, job->bias);
    if (job->scores.to.buffer != NULL)
        clprune__arg_region(&launch, job->scores.to);
    return clprune__launch_enqueue(&launch, 3, global, local, event);
}
