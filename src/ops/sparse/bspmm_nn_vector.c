/* nn on CPUs: lists of kept rows by block column, panels of w, register tiles. */
#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

static const clprune__kernel_def bspmm_panels_kernel = {"sparse/bspmm_panels.cl", "bspmm_panels"};
static const clprune__kernel_def bspmm_nn_vector_kernel = {
    "sparse/bspmm_nn_vector.cl", "bspmm_nn_vector"};

/* TILE_ROWS: fewer if that leaves no tile of two vectors. CHUNK_BYTES of w stay in the first-level
 * cache. Lists of segments shorter than LEAST_SEGMENT would mostly fill tiles. PANEL_COLUMNS of w
 * are packed by a group. */
enum { TILE_ROWS = 4, CHUNK_BYTES = 24 << 10, LEAST_SEGMENT = 32, PANEL_COLUMNS = 64 };

/* Any plan gives the same bits, so this one depends on the device's compute units. */
static clprune__bspmm_plan plan_nn(
    const clprune_context *context, const clprune_bsr_desc *desc, size_t outputs)
{
    enum { GROUPS_PER_UNIT = 4 };
    const clprune__tuning *tuning = &context->ops->tuning;
    const size_t accumulators = tuning->bspmm_nt.accumulators;
    clprune__bspmm_plan plan = {.tile = clprune__max(1, clprune__min(TILE_ROWS, accumulators / 2)),
        .ahead = tuning->bspmm_nt.ahead};
    plan.vectors = clprune__choose_vectors(outputs, plan.tile, accumulators, SIZE_MAX, 1);
    plan.panel = 16 * plan.vectors;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    plan.segment_most = clprune__panel_rows(context, tuning->bspmm_nt.segment_rows, plan.panel);
    const size_t wanted = clprune__ceil_div(
        GROUPS_PER_UNIT * clprune__max(1, context->facts.compute_units), plan.panels * desc->batch);
    plan.segments = clprune__max(clprune__ceil_div(desc->rows, plan.segment_most),
        clprune__min(wanted, clprune__ceil_div(desc->rows, LEAST_SEGMENT)));
    plan.segment = clprune__ceil_div(desc->rows, plan.segments);
    plan.segments = clprune__ceil_div(desc->rows, plan.segment);
    return plan;
}

/* Enqueues bspmm_panels: w in panels of `width` units a block column. */
static clprune_status pack_panels(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune_bsr *xs, size_t block_cols, size_t width, clprune_mat w, clprune__region *panels)
{
    const size_t bc = xs->desc.block.cols, run = clprune__max(1, PANEL_COLUMNS / bc);
    const size_t local[2] = {1, 1}, global[2] = {plan->panels, clprune__ceil_div(block_cols, run)};
    size_t units;
    REQUIRE(clprune__mul3(plan->panels, plan->panel, block_cols, &units) &&
                clprune__mul(units, width, &units),
        CLPRUNE_SIZE_OVERFLOW, "the panels of w, %zu x %zu, overflow size_t", w.rows, w.cols);
    TRY(clprune__scratch_array(context, units, sizeof(cl_uint), panels));
    clprune__defines defines = {0};
    clprune__define(&defines, "BF16", context->ops->pairs);
    clprune__define(&defines, "V", plan->vectors);
    clprune__define(&defines, "BC", bc);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_panels_kernel, &defines, &launch));
    ARG_ULONGS(&launch, w.rows, w.cols, block_cols, run);
    clprune__arg_mat(&launch, w);
    clprune__arg_region(&launch, *panels);
    return clprune__launch_enqueue(&launch, 2, global, local, NULL);
}

clprune_status clprune__multiply_nn_vector(clprune_context *context, float alpha, float beta,
    const clprune_bsr *xs, const clprune_bsr_sizes *sizes, clprune_mat w, clprune_mat y,
    cl_event *event)
{
    const bool pairs = context->ops->pairs != CLPRUNE__PAIRS_NONE;
    clprune_bsr joined = *xs;
    clprune_bsr_sizes joined_sizes = *sizes;
    clprune__join_samples(&joined, &joined_sizes);
    const clprune_bsr_desc *desc = &joined.desc;
    const size_t br = desc->block.rows, bc = desc->block.cols;
    const size_t width = pairs ? clprune__ceil_div(bc, 2) : bc;
    const clprune__bspmm_plan plan = plan_nn(context, desc, w.cols);
    const size_t chunk =
        clprune__min(width, clprune__max(1, CHUNK_BYTES / (plan.panel * sizeof(float))));
    clprune__bspmm_scratch scratch = {.even_rows = joined_sizes.block_rows != sizes->block_rows};
    clprune__region panels;
    TRY((pairs ? clprune__bsr_words : clprune__bsr_values)(context, xs, &scratch.values));
    TRY(clprune__bsr_read_index(context, xs, sizes, &scratch.index));
    TRY(clprune__bspmm_take_scratch(context, &joined, &joined_sizes, &plan, &scratch));
    TRY(clprune__bspmm_list_columns(context, &joined, &joined_sizes, &plan, &scratch));
    TRY(pack_panels(context, &plan, xs, sizes->block_cols, width, w, &panels));
    const size_t local[2] = {1, 1}, global[2] = {plan.panels, desc->batch * plan.segments};
    clprune__defines defines = {0};
    clprune__define(&defines, "BF16", context->ops->pairs);
    clprune__define(&defines, "V", plan.vectors);
    clprune__define(&defines, "P", plan.tile);
    clprune__define(&defines, "BR", br);
    clprune__define(&defines, "BC", bc);
    clprune__define(&defines, "SEG", plan.segment_most);
    clprune__define(&defines, "CHUNK", chunk);
    clprune__define(&defines, "AHEAD", plan.ahead);
    clprune__define(&defines, "READ_Y", beta != 0.0f);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nn_vector_kernel, &defines, &launch));
    ARG_ULONGS(
        &launch, desc->rows, w.cols, sizes->block_cols, plan.segment, plan.segments, desc->keep);
    ARG_FLOATS(&launch, alpha, beta);
    clprune__arg_region(&launch, scratch.values);
    clprune__arg_region(&launch, scratch.starts);
    clprune__arg_region(&launch, scratch.entries);
    clprune__arg_region(&launch, panels);
    clprune__arg_mat(&launch, y);
    return clprune__launch_enqueue(&launch, 2, global, local, event);
}
