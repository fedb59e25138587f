/* How the products run on matrix units: teams are warps, whose operands are rounded. */
#include <stdio.h>

#include "core/checked.h"
#include "ops/bspmm_private.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/mma.h"

/* Work-items of a warp, warps of a group, and the tiles of a warp where a block takes one matrix.
 */
enum { WARP = 32, WARPS = 8, TN_SLOTS = 2 };

/* Words between two rows of the panel in local memory. */
static size_t pitch(const clprune_context *context, size_t panel)
{
    return (context->precision == CLPRUNE_PRECISION_TF32 ? panel : panel / 2) + 8;
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

/* Segments are as equal as their number allows, so that the padding of lists pays. */
clprune__bspmm_plan clprune__plan_tn_mma(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    const clprune__tuning *tuning = &context->tuning;
    const size_t bc = xs->desc.block.cols, rows = xs->desc.rows;
    clprune__bspmm_plan plan = {.inner = sizes->block_cols * bc, .lanes = WARP};
    plan.tile = clprune__tile_cols(bc, tuning->mma_tn.tile_columns);
    plan.panel = tuning->mma_tn.panel;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    plan.teams = clprune__min(WARPS, context->facts.max_work_group / WARP);
    plan.slots = plan.tile < bc || n_tiles(&plan) > 1 ? 1 : TN_SLOTS;
    plan.groups = clprune__ceil_div(
        sizes->block_cols * clprune__ceil_div(bc, plan.tile), plan.teams * plan.slots);
    plan.splits =
        clprune__tiled_splits(context, &plan, tuning->mma_tn.groups_per_unit, xs->desc.batch);
    const size_t lists = plan.teams * plan.slots;
    const size_t panel_row = 2 * pitch(context, plan.panel) * sizeof(cl_uint);
    const size_t fixed = panel_row + 16 * lists * clprune__mma_depth(context) +
                         plan.teams * clprune__mma_local(context, m_tiles(&plan), n_tiles(&plan));
    const size_t most = clprune__fitting_rows(
        context, tuning->mma_tn.segment_rows, panel_row + 16 * lists, fixed, rows);
    plan.segments = clprune__ceil_div(rows, most);
    plan.segment = clprune__ceil_div(rows, plan.segments);
    return plan;
}

clprune_status clprune__multiply_tn_mma(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_block block = operands->xs->desc.block;
    const size_t local[3] = {plan->lanes * plan->teams, 1, 1};
    const size_t global[3] = {plan->panels * local[0], plan->groups, plan->splits};
    char matrices[96], defines[288];
    clprune__mma_defines(context, m_tiles(plan), n_tiles(plan), matrices, sizeof matrices);
    (void)snprintf(defines, sizeof defines,
        "-DBC=%zu -DBR=%zu -DSEG=%zu -DCT=%zu -DLANES=%zu -DTEAMS=%zu -DSLOTS=%zu -DDYV=%d "
        "-DPANEL=%zu %s",
        block.cols, block.rows, plan->segment, plan->tile, plan->lanes, plan->teams, plan->slots,
        clprune__dy_width(operands->dy), plan->panel, matrices);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BSPMM_TN_MMA, defines, &launch));
    clprune__arg_tn_sizes(&launch, plan, operands);
    clprune__arg_tn_operands(&launch, operands);
    TRY(clprune__launch_enqueue(&launch, 3, global, local, NULL));
done:
    return status;
}
