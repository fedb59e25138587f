/* How the products run on CPUs: one work-item a group, register tiles of 16-wide vectors. */
#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

static const clprune__kernel_def bspmm_tn_vector_kernel = {
    "sparse/bspmm_tn_vector.cl", "bspmm_tn_vector"};
static const clprune__kernel_def bspmm_nt_vector_kernel = {
    "sparse/bspmm_nt_vector.cl", "bspmm_nt_vector"};

/* Plans tn's vector kernel with tiles of `columns` (or of narrower blocks) and segments whose panel
 * of dy fits the first-level cache. `longer`: size panels as if tiles were up to twice as wide, so
 * segments stay long; this uses at least half of the accumulators, enough to hide the latency of an
 * addition. */
static clprune__bspmm_plan plan_tn_tiles(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs, size_t columns, bool longer)
{
    const size_t bc = xs->desc.block.cols, rows = xs->desc.rows;
    const clprune__tuning *tuning = &context->ops->tuning;
    clprune__bspmm_plan plan = {.inner = sizes->block_cols * bc, .ahead = tuning->bspmm_tn.ahead};
    plan.tile = clprune__largest_divisor(bc, columns);
    const size_t width = longer ? clprune__min(columns, 2 * plan.tile) : plan.tile;
    plan.vectors = clprune__choose_vectors(
        outputs, width, tuning->bspmm_tn.accumulators, tuning->bspmm_tn.groups, 1);
    plan.panel = 16 * plan.vectors;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    const size_t fits = clprune__panel_rows(context, tuning->bspmm_tn.segment_rows, plan.panel);
    const size_t near =
        clprune__max(1, tuning->bspmm_tn.panel_bytes / (plan.panel * sizeof(float)));
    plan.segment_most = clprune__min(fits, near);
    plan.segment = clprune__ceil_div(rows, clprune__ceil_div(rows, plan.segment_most));
    plan.segments = clprune__ceil_div(rows, plan.segment);
    return plan;
}

/* Panels that a group takes in turn: the most that results_bytes allow and that leave a multiple of
 * CLPRUNE__EVEN_GROUPS groups, as all panels are equal work; else one. */
static size_t choose_panel_run(const clprune_context *context, const clprune__bspmm_plan *plan)
{
    const size_t results = plan->inner * plan->panel * sizeof(float);
    const size_t most = context->ops->tuning.bspmm_tn.results_bytes / results;
    for (size_t run = clprune__min(plan->panels, most); run > 1; run--)
        if (plan->panels % run == 0 && plan->panels / run % CLPRUNE__EVEN_GROUPS == 0)
            return run;
    return 1;
}

/* Wide tiles need fewer loads for a product, but their segments have fewer rows, and each list of a
 * segment loads and stores its tile once. So they are for long lists. */
clprune__bspmm_plan clprune__plan_tn_vector(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    clprune__bspmm_plan plan =
        plan_tn_tiles(context, xs, sizes, outputs, tuning->bspmm_tn.long_list_columns, false);
    if (xs->desc.keep * xs->desc.block.rows / sizes->block_cols <
        plan.segments * tuning->bspmm_tn.long_list)
        plan = plan_tn_tiles(context, xs, sizes, outputs, tuning->bspmm_tn.tile_columns, true);
    plan.panel_run = choose_panel_run(context, &plan);
    const size_t groups = clprune__ceil_div(plan.panels, plan.panel_run);
    plan.splits = clprune__vector_splits(tuning->bspmm_tn.groups, groups, xs->desc.batch);
    return plan;
}

clprune_status clprune__multiply_tn_vector(clprune_context *context,
    const clprune__bspmm_plan *plan, const clprune__bspmm_operands *operands)
{
    const clprune_block block = operands->xs->desc.block;
    const size_t local[2] = {1, 1};
    const size_t global[2] = {clprune__ceil_div(plan->panels, plan->panel_run), plan->splits};
    clprune__defines defines = {0};
    clprune__define(&defines, "V", plan->vectors);
    clprune__define(&defines, "CB", plan->tile);
    clprune__define(&defines, "BC", block.cols);
    clprune__define(&defines, "BR", block.rows);
    clprune__define(&defines, "SEG", plan->segment_most);
    clprune__define(&defines, "AHEAD", plan->ahead);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_tn_vector_kernel, &defines, &launch));
    clprune__arg_tn_sizes(&launch, plan, operands);
    ARG_ULONGS(&launch, plan->panels, plan->panel_run);
    clprune__arg_tn_operands(&launch, operands);
    return clprune__launch_enqueue(&launch, 2, global, local, NULL);
}

clprune__bspmm_plan clprune__plan_nt_vector(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    (void)sizes;
    const clprune__tuning *tuning = &context->ops->tuning;
    clprune__bspmm_plan plan = {.inner = xs->desc.rows,
        .tile = tuning->bspmm_nt.tile_rows,
        .ahead = tuning->bspmm_nt.ahead};
    plan.vectors = clprune__choose_vectors(
        outputs, plan.tile, tuning->bspmm_nt.accumulators, tuning->bspmm_nt.groups, 1);
    plan.panel = 16 * plan.vectors;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    plan.splits = clprune__vector_splits(tuning->bspmm_nt.groups, plan.panels, xs->desc.batch);
    plan.segment = plan.segment_most = tuning->bspmm_nt.segment_rows;
    plan.segments = clprune__ceil_div(xs->desc.rows, plan.segment);
    return plan;
}

clprune_status clprune__multiply_nt_vector(clprune_context *context,
    const clprune__bspmm_plan *plan, const clprune__bspmm_operands *operands)
{
    const clprune_block block = operands->xs->desc.block;
    const size_t chunk = clprune__panel_rows(context,
        clprune__min(block.cols, context->ops->tuning.bspmm_nt.chunk_columns), plan->panel);
    clprune__defines defines = {0};
    clprune__define(&defines, "V", plan->vectors);
    clprune__define(&defines, "P", plan->tile);
    clprune__define(&defines, "BC", block.cols);
    clprune__define(&defines, "BR", block.rows);
    clprune__define(&defines, "SEG", plan->segment_most);
    clprune__define(&defines, "CHUNK", chunk);
    clprune__define(&defines, "AHEAD", plan->ahead);
    const size_t local[2] = {1, 1}, global[2] = {plan->panels, plan->splits};
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nt_vector_kernel, &defines, &launch));
    clprune__arg_nt(&launch, plan, operands);
    return clprune__launch_enqueue(&launch, 2, global, local, NULL);
}
