#include "nn/team_plan.h"

#include "core/checked.h"
#include "runtime/context_private.h"
#include "runtime/rowwise.h"

/* Work-items that share a row on GPUs. */
#define GPU_TEAM 32

size_t clprune__vector_width(const clprune_context *context)
{
    return context->kernels == CLPRUNE_KERNELS_VECTOR ? 16 : 4;
}

clprune__team_plan clprune__plan_teams(const clprune_context *context, size_t rows, size_t cols)
{
    const clprune__rowwise rowwise = clprune__rowwise_plan(context, rows, cols);
    size_t team = 1, group_rows = rowwise.group_rows;
    clprune__team_plan plan = {.local = rowwise.local};
    if (context->kernels == CLPRUNE_KERNELS_TILED) {
        team = GPU_TEAM;
        while (team > rowwise.local)
            team /= 2;
        plan.local -= plan.local % team;
        group_rows = plan.local / team; /* a row for each team: as many groups as there can be */
    }
    plan.global = clprune__ceil_div(rows, group_rows) * plan.local;
    clprune__define(&plan.defines, "LOCAL", plan.local);
    clprune__define(&plan.defines, "ROWS", group_rows);
    clprune__define(&plan.defines, "TEAM", team);
    clprune__define(&plan.defines, "VW", clprune__vector_width(context));
    return plan;
}
