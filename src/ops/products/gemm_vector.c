#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

static const clprune__kernel_def gemm_vector_kernel = {"products/gemm_vector.cl", "gemm_vector"};
static const clprune__kernel_def gemm_vector_quantised_kernel = {
    "products/gemm_vector.cl", "gemm_vector_quantised"};

clprune_status clprune__gemm_vector(
    clprune_context *context, clprune__gemm_job *job, cl_event *event)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    const bool packed = job->transpose_a;
    clprune__gemm_panels plan = {
        .vectors = clprune__gemm_tile_vectors(tuning->gemm.tile_vectors, job->n),
        .groups_per_unit = tuning->gemm.groups_per_unit};
    plan.tile_rows =
        (packed ? tuning->gemm.packed_accumulators : tuning->gemm.accumulators) / plan.vectors;
    plan.most_rows = clprune__gemm_block_rows(
        packed ? tuning->gemm.packed_rows : tuning->gemm.block_rows, plan.tile_rows, packed);
    plan.most_depth =
        clprune__panel_rows(context, packed ? tuning->gemm.packed_depth : tuning->gemm.panel_depth,
            16 * plan.vectors + (packed ? plan.most_rows : 0));
    plan.depth = /* equal panels */
        clprune__ceil_div(job->k, clprune__ceil_div(job->k, plan.most_depth));
    clprune__defines defines = {0};
    return clprune__gemm_enqueue_panels(context,
        job->quantised_b != NULL ? &gemm_vector_quantised_kernel : &gemm_vector_kernel, &plan,
        &defines, job, event);
}
