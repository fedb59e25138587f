/* The products on tensor cores: a team is a warp, and operands are rounded. */
#include "core/checked.h"
#include "ops/device/mma.h"
#include "ops/device/ops_state.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

static const clprune__kernel_def bspmm_tn_mma_kernel = {"sparse/bspmm_tn_mma.cl", "bspmm_tn_mma"};
static const clprune__kernel_def bspmm_nt_mma_kernel = {"sparse/bspmm_nt_mma.cl", "bspmm_nt_mma"};

/* Work-items of a warp, warps of a group, and tiles of a warp of tn where a block fits one
 * matrix. */
enum { WARP = 32, TN_WARPS = 8, NT_WARPS = 4, TN_SLOTS = 2 };

/* Words of a row of the panel in local memory. */
static size_t panel_words(const clprune_context *context, size_t panel)
{
    return context->ops->precision == CLPRUNE_PRECISION_TF32 ? panel : panel / 2;
}

static size_t warps(const clprune_context *context, size_t most)
{
    return clprune__min(most, context->facts.max_work_group / WARP);
}

/* Matrices of a tile, 16 outputs x 8 columns each. */
static size_t m_tiles(const clprune__bspmm_plan *plan)
{
    return plan->panel / 16;
}

static size_t n_tiles(const clprune__bspmm_plan *plan)
{
    return clprune__ceil_div(plan->tile, 8);
}

/* Segments are of equal length, up to rounding, since each list of a segment is padded. */
clprune__bspmm_plan clprune__plan_tn_mma(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    const size_t bc = xs->desc.block.cols, rows = xs->desc.rows;
    clprune__bspmm_plan plan = {.inner = sizes->block_cols * bc, .lanes = WARP};
    plan.tile = clprune__tile_cols(bc, tuning->mma_tn.tile_columns);
    plan.panel = tuning->mma_tn.panel;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    plan.teams = warps(context, TN_WARPS);
    plan.slots = plan.tile < bc || n_tiles(&plan) > 1 ? 1 : TN_SLOTS;
    plan.groups = clprune__ceil_div(
        sizes->block_cols * clprune__ceil_div(bc, plan.tile), plan.teams * plan.slots);
    plan.splits =
        clprune__tiled_splits(context, &plan, tuning->mma_tn.groups_per_unit, xs->desc.batch);
    const size_t lists = plan.teams * plan.slots;
    const size_t panel_row = 2 * (panel_words(context, plan.panel) + 8) * sizeof(cl_uint);
    const size_t fixed = panel_row + 16 * lists * clprune__mma_depth(context);
    plan.segment_most =
        clprune__fitting_rows(context, tuning->mma_tn.segment_rows, panel_row + 16 * lists, fixed);
    plan.segments = clprune__ceil_div(rows, plan.segment_most);
    plan.segment = clprune__ceil_div(rows, plan.segments);
    return plan;
}

/* The defines of both kernels; `columns`: matrices side by side in a tile. */
static void warp_defines(const clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands, size_t columns, clprune__defines *defines)
{
    clprune__team_defines(plan, operands, defines);
    clprune__define(defines, "PANEL", plan->panel);
    clprune__mma_defines(context, m_tiles(plan), columns, defines);
}

clprune_status clprune__multiply_tn_mma(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    clprune__defines defines = {0};
    warp_defines(context, plan, operands, n_tiles(plan), &defines);
    clprune__define(&defines, "SLOTS", plan->slots);
    clprune__define(&defines, "DYV", clprune__dy_width(operands->dy));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_tn_mma_kernel, &defines, &launch));
    clprune__arg_tn_sizes(&launch, plan, operands);
    clprune__arg_tn_operands(&launch, operands);
    launch.work.precision = context->ops->precision;
    return clprune__enqueue_teams(&launch, plan);
}

clprune__bspmm_plan clprune__plan_nt_mma(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    (void)sizes;
    const clprune__tuning *tuning = &context->ops->tuning;
    const size_t depth = clprune__mma_depth(context);
    clprune__bspmm_plan plan = {.inner = xs->desc.rows, .lanes = WARP};
    plan.tile = clprune__largest_divisor(xs->desc.block.cols, 2 * depth);
    plan.panel = tuning->mma_nt.panel;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    plan.teams = warps(context, NT_WARPS);
    const size_t words =
        clprune__round_up(plan.tile, depth) * panel_words(context, plan.panel) + 32;
    const size_t fixed = 4 * words + plan.teams * (8 + 16 * depth);
    plan.segment = plan.segment_most = clprune__fitting_rows(
        context, tuning->mma_nt.segment_rows, plan.teams * (4 * (plan.panel + 8) + 16), fixed);
    plan.segments = clprune__ceil_div(xs->desc.rows, plan.segment);
    plan.groups = clprune__ceil_div(plan.segments, plan.teams);
    plan.splits =
        clprune__tiled_splits(context, &plan, tuning->mma_nt.groups_per_unit, xs->desc.batch);
    return plan;
}

clprune_status clprune__multiply_nt_mma(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    clprune__defines defines = {0};
    warp_defines(context, plan, operands, 1, &defines);
    clprune__define(&defines, "DYV", plan->tile % 4 == 0 ? clprune__dy_width(operands->dy) : 1);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nt_mma_kernel, &defines, &launch));
    clprune__arg_nt(&launch, plan, operands);
    launch.work.precision = context->ops->precision;
    return clprune__enqueue_teams(&launch, plan);
}
