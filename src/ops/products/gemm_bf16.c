#include "core/checked.h"
#include "ops/device/bf16.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

static const clprune__kernel_def gemm_bf16_kernel = {"products/gemm_bf16_vector.cl", "gemm_bf16"};
static const clprune__kernel_def gemm_bf16_quantised_kernel = {
    "products/gemm_bf16_vector.cl", "gemm_bf16_quantised"};

/* A pair of bf16 takes a float's place. */
enum { PAIR = 2, STEP = 32 /* a panel's depth is a multiple of it, of whole vectors */ };

/* `most`, or 6/7 of it if that leaves fewer rows of the last tile of a block empty. */
static size_t tile_rows(size_t most, size_t block_rows, size_t m)
{
    const size_t rows = clprune__ceil_div(m, clprune__ceil_div(m, block_rows));
    const size_t large = clprune__max(1, most), small = clprune__max(1, 6 * large / 7);
    return clprune__round_up(rows, small) < clprune__round_up(rows, large) ? small : large;
}

/* Words of local memory for so many panels of STEP rows, and op(a) beside them. */
static size_t width_of(const clprune__gemm_panels *plan, size_t panels)
{
    return STEP / PAIR * (16 * plan->vectors * panels + plan->most_rows);
}

/* Panels that the kernel packs at once with AMX: PANELS. */
static size_t panels_at_once(const clprune__gemm_job *job)
{
    enum { MOST = 4 };
    return job->transpose_b || job->quantised_b != NULL ? 1 : MOST;
}

static clprune__gemm_panels plan_of(const clprune_context *context, const clprune__gemm_job *job)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    clprune__gemm_panels plan = {
        .vectors = clprune__gemm_tile_vectors(tuning->gemm_bf16.tile_vectors, job->n),
        .groups_per_unit = tuning->gemm_bf16.groups_per_unit};
    plan.tile_rows = tile_rows(
        tuning->gemm_bf16.accumulators / plan.vectors, tuning->gemm_bf16.block_rows, job->m);
    plan.most_rows = clprune__gemm_block_rows(
        clprune__max(1, tuning->gemm_bf16.block_rows / plan.tile_rows) * plan.tile_rows,
        plan.tile_rows, job->transpose_a);
    plan.most_depth = STEP * clprune__panel_rows(
                                 context, tuning->gemm_bf16.panel_depth / STEP, width_of(&plan, 1));
    return plan;
}

/* The same for the tiles of amx.clh. They multiply so fast that packing op(b) counts, which is done
 * once for all rows of a group; where local memory is small for these, there are fewer. It is never
 * less deep than plan_of, which clprune__gemm_bf16_at_once asks, also in a context without a
 * device. */
static clprune__gemm_panels amx_plan_of(
    const clprune_context *context, const clprune__gemm_job *job)
{
    enum { ROWS = 32, VECTORS = 2, MOST = 512, LEAST = 256, DEPTH = 1024 };
    clprune__gemm_panels plan = {.vectors = clprune__gemm_tile_vectors(VECTORS, job->n),
        .tile_rows = ROWS,
        .most_rows = MOST,
        .groups_per_unit = context->ops->tuning.gemm_bf16.groups_per_unit};
    const size_t deep = DEPTH / STEP, panels = panels_at_once(job);
    while (plan.most_rows > LEAST &&
           clprune__panel_rows(context, deep, width_of(&plan, panels)) < deep)
        plan.most_rows /= 2;
    plan.most_depth = STEP * clprune__panel_rows(context, deep, width_of(&plan, panels));
    return plan;
}

bool clprune__gemm_bf16_at_once(const clprune_context *context, const clprune__gemm_job *job)
{
    return job->k <= plan_of(context, job).most_depth;
}

clprune_status clprune__gemm_bf16(clprune_context *context, clprune__gemm_job *job, cl_event *event)
{
    const bool amx = context->ops->amx != CLPRUNE__AMX_NONE;
    clprune__gemm_panels plan = amx ? amx_plan_of(context, job) : plan_of(context, job);
    plan.depth = clprune__round_up(/* equal panels */
        clprune__ceil_div(job->k, clprune__ceil_div(job->k, plan.most_depth)), STEP);
    clprune__defines defines = {0};
    clprune__bf16_define(context, &defines);
    if (amx) {
        clprune__define(&defines, "AMX", context->ops->amx);
        clprune__define(&defines, "PANELS", panels_at_once(job));
    }
    if (job->a.type == CLPRUNE_VALUES_BF16) {
        clprune__define(&defines, "A_BF16", 1);
        job->scores.to.buffer = NULL;
    }
    if (job->c.type == CLPRUNE_VALUES_BF16)
        clprune__define(&defines, "C_BF16", 1);
    return clprune__gemm_enqueue_panels(context,
        job->quantised_b != NULL ? &gemm_bf16_quantised_kernel : &gemm_bf16_kernel, &plan, &defines,
        job, event);
}
