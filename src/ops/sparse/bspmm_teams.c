/* What the kernels for GPUs share: teams of work-items, and what they hold in local memory. */
#include "core/checked.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/context_private.h"

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
