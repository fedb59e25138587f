/* How the products run on GPUs: teams of work-items, tiles in local memory. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/ops_state.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

static const clprune__kernel_def bspmm_tn_tiled_kernel = {
    "sparse/bspmm_tn_tiled.cl", "bspmm_tn_tiled"};
static const clprune__kernel_def bspmm_nt_tiled_kernel = {
    "sparse/bspmm_nt_tiled.cl", "bspmm_nt_tiled"};

/* Teams of a group, rows of a segment of nt and columns of a tile (at most), and tiles of a team of
 * tn where blocks are narrow. */
enum { TILED_TEAMS = 8, NT_TILED_ROWS = 16, TILED_COLS = 16, TN_TILED_SLOTS = 2 };

/* Chooses the panel and the teams, whose work-items hold four outputs each; fewer teams, or a panel
 * of 16, where the largest work-group is small. */
static void choose_teams(
    const clprune_context *context, clprune__bspmm_plan *plan, size_t panel, size_t teams)
{
    plan->panel = panel / 4 <= context->facts.max_work_group ? panel : 16;
    plan->lanes = plan->panel / 4;
    plan->teams = clprune__max(1, clprune__min(teams, context->facts.max_work_group / plan->lanes));
}

size_t clprune__fitting_rows(
    const clprune_context *context, size_t most, size_t row_bytes, size_t fixed_bytes)
{
    const size_t bytes = (size_t)clprune__min(context->facts.local_memory, (uint64_t)1 << 30);
    const size_t fit = bytes > fixed_bytes ? (bytes - fixed_bytes) / row_bytes : 1;
    return clprune__max(1, clprune__min(most, fit));
}

/* No more groups than run at once: a few left over would take as long as all the others. */
size_t clprune__tiled_splits(const clprune_context *context, const clprune__bspmm_plan *plan,
    size_t groups_per_unit, size_t batch)
{
    const size_t at_once = (size_t)context->facts.compute_units * groups_per_unit;
    return clprune__max(1, clprune__min(batch, at_once / (plan->panels * plan->groups)));
}

size_t clprune__tile_cols(size_t bc, size_t most)
{
    const size_t cols = clprune__ceil_div(bc, clprune__ceil_div(bc, most));
    return bc % 4 == 0 ? clprune__round_up(cols, 4) : cols;
}

size_t clprune__dy_width(clprune_mat dy)
{
    return dy.offset % 4 == 0 && dy.ld % 4 == 0 && dy.cols % 4 == 0 ? 4 : 1;
}

void clprune__team_defines(const clprune__bspmm_plan *plan, const clprune__bspmm_operands *operands,
    clprune__defines *defines)
{
    const clprune_block block = operands->xs->desc.block;
    const bool aligned = block.cols % 4 == 0 && operands->scratch->values.offset % 4 == 0;
    clprune__define(defines, "XV", aligned ? 4 : 1);
    clprune__define(defines, "BC", block.cols);
    clprune__define(defines, "BR", block.rows);
    clprune__define(defines, "SEG", plan->segment_most);
    clprune__define(defines, "CT", plan->tile);
    clprune__define(defines, "LANES", plan->lanes);
    clprune__define(defines, "TEAMS", plan->teams);
}

clprune_status clprune__enqueue_teams(clprune__launch *launch, const clprune__bspmm_plan *plan)
{
    const size_t local[2] = {plan->lanes * plan->teams, 1};
    const size_t global[2] = {plan->panels * plan->groups * local[0], plan->splits};
    return clprune__launch_enqueue(launch, 2, global, local, NULL);
}

clprune__bspmm_plan clprune__plan_tn_tiled(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    const size_t bc = xs->desc.block.cols;
    clprune__bspmm_plan plan = {.inner = sizes->block_cols * bc};
    plan.tile = clprune__tile_cols(bc, tuning->tiled_tn.tile_columns);
    choose_teams(context, &plan, tuning->tiled_tn.panel, TILED_TEAMS);
    plan.slots = plan.tile < bc ? 1 : clprune__min(TN_TILED_SLOTS, TILED_COLS / bc);
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
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__defines defines = {0};
    clprune__team_defines(plan, operands, &defines);
    clprune__define(&defines, "SLOTS", plan->slots);
    clprune__define(&defines, "DYV", clprune__dy_width(operands->dy));
    clprune__define(&defines, "CONV", operands->conv != NULL);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_tn_tiled_kernel, &defines, &launch));
    clprune__arg_tn_sizes(&launch, plan, operands);
    if (operands->conv != NULL)
        clprune__arg_conv(&launch, operands->conv);
    clprune__arg_tn_operands(&launch, operands);
    TRY(clprune__enqueue_teams(&launch, plan));
done:
    return status;
}

clprune__bspmm_plan clprune__plan_nt_tiled(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    (void)sizes;
    clprune__bspmm_plan plan = {.inner = xs->desc.rows};
    plan.tile = clprune__largest_divisor(xs->desc.block.cols, TILED_COLS);
    choose_teams(context, &plan, context->ops->tuning.tiled_nt.panel, TILED_TEAMS);
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    const size_t fixed = 16 * plan.tile * (plan.lanes + 1) + 8 * plan.teams;
    plan.segment = plan.segment_most =
        clprune__fitting_rows(context, NT_TILED_ROWS, 16 * plan.teams * (plan.lanes + 1), fixed);
    plan.segments = clprune__ceil_div(xs->desc.rows, plan.segment);
    plan.groups = clprune__ceil_div(plan.segments, plan.teams);
    plan.splits = clprune__tiled_splits(
        context, &plan, context->ops->tuning.tiled_nt.groups_per_unit, xs->desc.batch);
    return plan;
}

clprune_status clprune__multiply_nt_tiled(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__defines defines = {0};
    clprune__team_defines(plan, operands, &defines);
    clprune__define(&defines, "DYV", plan->tile % 4 == 0 ? clprune__dy_width(operands->dy) : 1);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nt_tiled_kernel, &defines, &launch));
    clprune__arg_nt(&launch, plan, operands);
    TRY(clprune__enqueue_teams(&launch, plan));
done:
    return status;
}
