#include "nn/column_sum.h"

#include "core/checked.h"
#include "nn/team_plan.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/launch.h"
#include "runtime/scratch.h"

static const clprune__kernel_def column_sum_partial_kernel = {
    "column_sum.cl", "column_sum_partial", "nn.clh"};
static const clprune__kernel_def column_sum_final_kernel = {
    "column_sum.cl", "column_sum_final", "nn.clh"};
static const clprune__kernel_def row_sum_kernel = {"row_sum.cl", "row_sum", "nn.clh"};

/* Enough groups to fill any device, few enough for the second stage. */
#define MAX_GROUPS 512
/* CPUs read 8 rows side by side: a third of the time of all rows of a group at once, where the
 * matrix does not fit the caches. */
#define CPU_STRIP 8
/* The second stage on GPUs: vectors of columns of a work-group, the rest of it divides the rows. */
#define FINAL_LANES 8

clprune__rowwise clprune__reduction_plan(const clprune_context *context, size_t rows, size_t cols)
{
    return clprune__strip_plan(context, rows, cols, CPU_STRIP);
}

clprune__rowwise clprune__strip_plan(
    const clprune_context *context, size_t rows, size_t cols, unsigned cpu_strip)
{
    clprune__rowwise plan = clprune__rowwise_plan(context, rows, cols);
    while (plan.groups > MAX_GROUPS) {
        plan.group_rows *= 2;
        plan.groups = clprune__ceil_div(rows, plan.group_rows);
    }
    plan.global = cols > 0 ? plan.groups * plan.local : 0;
    plan.defines = (clprune__defines){0};
    clprune__define(&plan.defines, "LOCAL", plan.local);
    clprune__define(&plan.defines, "ROWS", plan.group_rows);
    if (context->kernels == CLPRUNE_KERNELS_VECTOR)
        clprune__define(&plan.defines, "STRIP", cpu_strip);
    clprune__define(&plan.defines, "VW", clprune__vector_width(context));
    return plan;
}

/* The second stage, whose sums overwrite `sum` or are added to it. */
static clprune_status finish(clprune_context *context, bool accumulate, size_t groups, size_t step,
    clprune_mat partial, clprune_mat sum, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t width = clprune__vector_width(context);
    size_t local = vector ? 1 : clprune__min(128, context->facts.max_work_group);
    const size_t lanes = clprune__min(FINAL_LANES, local);
    local -= local % lanes;
    const size_t global = clprune__ceil_div(sum.cols, lanes * width) * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "ACCUMULATE", accumulate);
    clprune__define(&defines, "LANES", lanes);
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "VW", width);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &column_sum_final_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, groups);
    clprune__arg_ulong(&launch, step);
    clprune__arg_ulong(&launch, sum.cols);
    clprune__arg_mat(&launch, partial);
    clprune__arg_mat(&launch, sum);
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, event));
done:
    return status;
}

clprune_status clprune__column_sums_final(clprune_context *context, bool accumulate, size_t groups,
    clprune_mat partial, size_t count, const clprune_mat *sums, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; i < count; i++, partial.offset += partial.ld)
        TRY(finish(
            context, accumulate, groups, count, partial, sums[i], i + 1 == count ? event : NULL));
done:
    return status;
}

clprune_status clprune__column_sum(
    clprune_context *context, bool accumulate, clprune_mat x, clprune_mat sum, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(clprune__check_mat(context, "x", x, x.rows, x.cols));
    TRY(clprune__check_mat(context, "sum", sum, 1, x.cols));
    TRY(clprune__check_apart(context, "sum", sum, "x", x));
    const clprune__rowwise plan = clprune__reduction_plan(context, x.rows, x.cols);
    if (plan.groups == 0) {
        TRY(finish(context, accumulate, 0, 1, sum, sum, event));
        goto done;
    }
    /* One group's partial sums are the sums. */
    const bool two_stages = plan.groups > 1 || accumulate;
    clprune_mat partial = sum;
    if (two_stages)
        TRY(clprune__scratch_mat(context, plan.groups, x.cols, &partial));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &column_sum_partial_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, x.rows);
    clprune__arg_ulong(&launch, x.cols);
    clprune__arg_mat(&launch, x);
    clprune__arg_mat(&launch, partial);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, two_stages ? NULL : event));
    if (two_stages)
        TRY(finish(context, accumulate, plan.groups, 1, partial, sum, event));
done:
    if (context != NULL)
        clprune__scratch_end(context, mark);
    return status;
}

clprune_status clprune__row_sums(
    clprune_context *context, clprune_mat x, size_t tokens, clprune_mat *sums)
{
    clprune_status status = CLPRUNE_SUCCESS;
    *sums = (clprune_mat){.cols = tokens, .ld = tokens};
    if (x.rows > 0 && x.cols > 0)
        TRY(clprune__scratch_mat(context, x.rows / tokens, tokens, sums));
done:
    return status;
}

/* sum[0][r] = sum_c x[r][c] */
static clprune_status row_sum(clprune_context *context, clprune_mat x, clprune_mat sum)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__team_plan plan = clprune__plan_teams(context, x.rows, x.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &row_sum_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, x.rows);
    clprune__arg_ulong(&launch, x.cols);
    clprune__arg_mat(&launch, x);
    clprune__arg_mat(&launch, sum);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
done:
    return status;
}

clprune_status clprune__token_bias_grad(clprune_context *context, size_t batch, size_t tokens,
    bool accumulate, clprune_mat dy, clprune_mat db, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    clprune__scratch_mark mark = clprune__scratch_begin(context);
    size_t rows;
    REQUIRE(clprune__mul(batch, tokens, &rows), CLPRUNE_SIZE_OVERFLOW, "%zu samples of %zu tokens",
        batch, tokens);
    TRY(clprune__check_mat(context, "dy", dy, rows, dy.cols));
    TRY(clprune__check_mat(context, "db", db, 1, tokens));
    TRY(clprune__check_apart(context, "db", db, "dy", dy));
    /* First over the features of each row, then over the samples. */
    clprune_mat sums;
    TRY(clprune__row_sums(context, dy, tokens, &sums));
    if (sums.rows > 0)
        TRY(row_sum(context, dy, sums));
    TRY(clprune__column_sum(context, accumulate, sums, db, event));
done:
    if (context != NULL)
        clprune__scratch_end(context, mark);
    return status;
}
