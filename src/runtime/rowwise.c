#include "runtime/rowwise.h"

#include "core/checked.h"
#include "runtime/context_private.h"

/* Elements a group should have to itself, so that starting it costs nothing beside its work. */
#define CPU_GROUP_ELEMENTS 32768
#define GPU_GROUP_ELEMENTS 4096
#define MAX_GROUP_ROWS     1024

clprune__rowwise clprune__rowwise_plan(const clprune_context *context, size_t rows, size_t cols)
{
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t elements = vector ? CPU_GROUP_ELEMENTS : GPU_GROUP_ELEMENTS;
    /* A power of two, so that few different programs are built. */
    size_t group_rows = 1;
    while (group_rows < MAX_GROUP_ROWS && group_rows * 2 * cols <= elements && group_rows < rows)
        group_rows *= 2;
    clprune__rowwise plan = {0};
    plan.local = vector ? 1 : clprune__min(128, context->facts.max_work_group);
    plan.group_rows = group_rows;
    plan.groups = clprune__ceil_div(rows, group_rows);
    plan.global = cols > 0 ? plan.groups * plan.local : 0;
    clprune__define(&plan.defines, "LOCAL", plan.local);
    clprune__define(&plan.defines, "ROWS", group_rows);
    clprune__define(&plan.defines, "VW", vector ? 16 : 4);
    return plan;
}
