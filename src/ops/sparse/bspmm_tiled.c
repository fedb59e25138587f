/* How the products run on GPUs: teams of work-items, tiles in local memory. */
#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

static const clprune__kernel_def bspmm_tn_tiled_kernel = {
    "sparse/bspmm_tn_tiled.cl", "bspmm_tn_tiled"};
static const clprune__kernel_def bspmm_nt_tiled_kernel = {
    "sparse/bspmm_nt_tiled.cl", "bspmm_nt_tiled"};

enum { TILED_TEAMS = 8 }; /* of a group */

/* Chooses the panel and the teams, whose work-items hold four outputs each; fewer teams, or a panel
 * of 16, where the largest work-group is small. */
static void choose_teams(
    const clprune_context *context, clprune__bspmm_plan *plan, size_t panel, size_t teams)
{
    plan->panel = panel / 4 <= context->facts.max_work_group ? panel : 16;
    plan->lanes = plan->panel / 4;
    plan->teams = clprune__max(1, clprune__min(teams, context->facts.max_work_group / plan->lanes));
}

clprune__bspmm_plan clprune__plan_tn_tiled(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    const size_t bc = xs->desc.block.cols;
    clprune__bspmm_plan plan = {.inner = sizes->block_cols * bc};
    plan.tile = clprune__tile_cols(bc, tuning->tiled_tn.tile_columns);
    choose_teams(context, &plan, tuning->tiled_tn.panel, TILED_TEAMS);
    /* two tiles a team where blocks are narrow */
    plan.slots = 2 * bc <= tuning->tiled_tn.tile_columns ? 2 : 1;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    plan.groups = clprune__ceil_div(
        sizes->block_cols * clprune__ceil_div(bc, plan.tile), plan.teams * plan.slots);
    plan.splits =
        clprune__tiled_splits(context, &plan, tuning->tiled_tn.groups_per_unit, xs->desc.batch);
    const size_t lists = plan.teams * plan.slots;
    plan.segment = plan.segment_most = clprune__fitting_rows(
        context, tuning->tiled_tn.segment_rows, 32 * plan.lanes + 16 * lists + 8, 8 * lists);
    plan.segments = clprune__ceil_div(xs->desc.rows, plan.segment);
    return plan;
}

clprune_status clprune__multiply_tn_tiled(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    clprune__defines defines = {0};
    clprune__team_defines(plan, operands, &defines);
    clprune__define(&defines, "SLOTS", plan->slots);
    clprune__define(&defines, "DYV", clprune__dy_width(operands->dy));
    clprune__define(&defines, "CONV", operands->arg_pixels != NULL);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_tn_tiled_kernel, &defines, &launch));
    clprune__arg_tn_sizes(&launch, plan, operands);
    if (operands->arg_pixels != NULL)
        operands->arg_pixels(&launch, operands->pixels);
    clprune__arg_tn_operands(&launch, operands);
    if (operands->arg_pixels != NULL)
        launch.work.multiplications *= (double)operands->taps;
    return clprune__enqueue_teams(&launch, plan);
}

clprune__bspmm_plan clprune__plan_nt_tiled(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    (void)sizes;
    clprune__bspmm_plan plan = {.inner = xs->desc.rows};
    plan.tile = clprune__largest_divisor(xs->desc.block.cols, tuning->tiled_nt.tile_columns);
    choose_teams(context, &plan, tuning->tiled_nt.panel, TILED_TEAMS);
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    const size_t fixed = 16 * plan.tile * (plan.lanes + 1) + 8 * plan.teams;
    plan.segment = plan.segment_most = clprune__fitting_rows(
        context, tuning->tiled_nt.segment_rows, 16 * plan.teams * (plan.lanes + 1), fixed);
    plan.segments = clprune__ceil_div(xs->desc.rows, plan.segment);
    plan.groups = clprune__ceil_div(plan.segments, plan.teams);
    plan.splits =
        clprune__tiled_splits(context, &plan, tuning->tiled_nt.groups_per_unit, xs->desc.batch);
    return plan;
}

clprune_status clprune__multiply_nt_tiled(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    clprune__defines defines = {0};
    clprune__team_defines(plan, operands, &defines);
    clprune__define(&defines, "DYV", plan->tile % 4 == 0 ? clprune__dy_width(operands->dy) : 1);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nt_tiled_kernel, &defines, &launch));
    clprune__arg_nt(&launch, plan, operands);
    return clprune__enqueue_teams(&launch, plan);
}
