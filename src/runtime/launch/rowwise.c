#include "runtime/launch/rowwise.h"

#include "core/checked.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

/* Elements of a group: enough to make the cost of starting it negligible. */
#define CPU_GROUP_ELEMENTS 32768
#define GPU_GROUP_ELEMENTS 4096
#define MAX_GROUP_ROWS     1024
/* Groups of sums: enough to fill any device, few enough for the second stage. */
#define MAX_SUM_GROUPS 512
/* Work-items of a group on GPUs. */
#define GPU_LOCAL 128
/* Work-items that share the sum of a row on GPUs. */
#define GPU_TEAM 32

size_t clprune__vector_width(const clprune_context *context)
{
    return context->kernels == CLPRUNE_KERNELS_VECTOR ? 16 : 4;
}

size_t clprune__group_size(const clprune_context *context, size_t wanted)
{
    return context->kernels == CLPRUNE_KERNELS_VECTOR
               ? 1
               : clprune__min(wanted, context->facts.max_work_group);
}

/* Completes a plan that has its local size and group_rows: groups, global size, and the defines for
 * vectors of `width`. */
static clprune__rowwise finish(clprune__rowwise plan, size_t width)
{
    plan.groups = clprune__ceil_div(plan.rows, plan.group_rows);
    plan.global = plan.groups * plan.local;
    clprune__define(&plan.defines, "LOCAL", plan.local);
    clprune__define(&plan.defines, "VW", width);
    return plan;
}

static clprune__rowwise divide(const clprune_context *context, size_t rows, size_t cols)
{
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t elements = vector ? CPU_GROUP_ELEMENTS : GPU_GROUP_ELEMENTS;
    size_t group_rows = 1;
    while (group_rows < MAX_GROUP_ROWS && group_rows * 2 * cols <= elements && group_rows < rows)
        group_rows *= 2;
    return (clprune__rowwise){.rows = rows,
        .cols = cols,
        .local = clprune__group_size(context, GPU_LOCAL),
        .group_rows = group_rows};
}

clprune__rowwise clprune__rowwise_plan(const clprune_context *context, size_t rows, size_t cols)
{
    clprune__rowwise plan = finish(divide(context, rows, cols), clprune__vector_width(context));
    if (cols == 0)
        plan.global = 0;
    return plan;
}

clprune__rowwise clprune__sums_plan(const clprune_context *context, size_t rows, size_t cols,
    size_t sums, size_t cpu_strip, size_t gpu_strip)
{
    return clprune__sums_plan_of(
        context, rows, cols, sums, cpu_strip, gpu_strip, clprune__vector_width(context));
}

clprune__rowwise clprune__sums_plan_of(const clprune_context *context, size_t rows, size_t cols,
    size_t sums, size_t cpu_strip, size_t gpu_strip, size_t width)
{
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t strip = sums == 0 ? 1 : vector ? cpu_strip : gpu_strip;
    clprune__rowwise plan = divide(context, rows, cols);
    while (sums > 0 && clprune__ceil_div(rows, plan.group_rows) > MAX_SUM_GROUPS)
        plan.group_rows *= 2;
    plan = finish(plan, width);
    if (cols == 0)
        plan.global = 0;
    clprune__define(&plan.defines, "SUMS", sums);
    if (strip > 0)
        clprune__define(&plan.defines, "STRIP", strip);
    return plan;
}

size_t clprune__lanes(const clprune_context *context, size_t cols, size_t width, size_t *local)
{
    *local = 1;
    if (context->kernels == CLPRUNE_KERNELS_VECTOR)
        return 1;
    *local = clprune__min(GPU_LOCAL, context->facts.max_work_group);
    size_t lanes = 1;
    while (lanes * 2 <= *local && lanes * width < cols)
        lanes *= 2;
    *local -= *local % lanes;
    return lanes;
}

clprune__rowwise clprune__lanes_plan(
    const clprune_context *context, size_t rows, size_t cols, size_t sums, size_t width)
{
    clprune__rowwise plan = divide(context, rows, cols);
    while (sums > 0 && clprune__ceil_div(rows, plan.group_rows) > MAX_SUM_GROUPS)
        plan.group_rows *= 2;
    plan.lanes = clprune__lanes(context, cols, width, &plan.local);
    plan = finish(plan, width);
    if (cols == 0)
        plan.global = 0;
    clprune__define(&plan.defines, "SUMS", sums);
    if (context->kernels == CLPRUNE_KERNELS_VECTOR)
        clprune__define(&plan.defines, "STRIP", CLPRUNE__STRIP);
    return plan;
}

clprune__rowwise clprune__team_plan(const clprune_context *context, size_t rows, size_t cols)
{
    size_t team = 1;
    clprune__rowwise plan = divide(context, rows, cols);
    if (context->kernels == CLPRUNE_KERNELS_TILED) {
        team = GPU_TEAM;
        while (team > plan.local)
            team /= 2;
        plan.local -= plan.local % team;
        plan.group_rows = plan.local / team; /* a row for each team: as many groups as possible */
    }
    plan = finish(plan, clprune__vector_width(context));
    clprune__define(&plan.defines, "TEAM", team);
    plan.team = team;
    return plan;
}

clprune__rowwise clprune__strips_plan(
    const clprune_context *context, size_t rows, size_t cols, size_t sums)
{
    clprune__rowwise plan;
    if (sums > 0)
        plan = clprune__sums_plan(context, rows, cols, sums, CLPRUNE__STRIP, CLPRUNE__STRIP);
    else {
        plan = clprune__rowwise_plan(context, rows, cols);
        clprune__define(&plan.defines, "SUMS", 0);
        clprune__define(&plan.defines, "STRIP", CLPRUNE__STRIP);
    }
    plan.team = plan.local > 1 ? GPU_TEAM : 1;
    while (plan.local % plan.team != 0)
        plan.team /= 2;
    clprune__define(&plan.defines, "TEAM", plan.team);
    return plan;
}

clprune_status clprune__rowwise_begin(clprune_context *context, const clprune__kernel_def *def,
    const clprune__rowwise *plan, clprune__launch *launch)
{
    TRY(clprune__launch_begin(context, def, &plan->defines, launch));
    launch->least_group = clprune__max(1, clprune__max(plan->lanes, plan->team));
    ARG_ULONGS(launch, plan->rows, plan->cols, plan->group_rows);
    if (plan->lanes > 0)
        clprune__arg_uint(launch, (uint32_t)plan->lanes);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__rowwise_end(
    clprune__launch *launch, const clprune__rowwise *plan, cl_event *event)
{
    return clprune__launch_enqueue(launch, 1, &plan->global, &plan->local, event);
}

clprune_status clprune__rowwise_end_parts(
    clprune__launch *launch, const clprune__rowwise *plan, cl_event *event)
{
    const size_t vectors = clprune__ceil_div(plan->cols, clprune__vector_width(launch->context));
    const size_t global = plan->rows * clprune__round_up(vectors, plan->local);
    return clprune__launch_enqueue(launch, 1, &global, &plan->local, event);
}

clprune_status clprune__rowwise_run(clprune_context *context, const clprune__kernel_def *def,
    const clprune__rowwise *plan, size_t count, const clprune_mat *mats, cl_event *event)
{
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, def, plan, &launch));
    for (size_t i = 0; i < count; i++)
        clprune__arg_mat(&launch, mats[i]);
    return clprune__rowwise_end(&launch, plan, event);
}
