#include "nn/layers/sums.h"

#include "core/checked.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def column_sum_final_kernel = {
    "layers/column_sum.cl", "column_sum_final"};
static const clprune__kernel_def column_sum_partial_kernel = {
    "layers/column_sum.cl", "column_sum_partial"};
static const clprune__kernel_def row_sum_kernel = {"layers/row_sum.cl", "row_sum"};

/* The second stage on GPUs: lanes of a work-group, a vector of columns each; its slices divide the
 * partial sums. */
#define FINAL_LANES 8

/* The second stage: sum = the sums of the rows 0, step, 2 * step, ... of partial + beta * sum.
 * second: likewise from row 1 on, as wide; NULL: there is none. */
static clprune_status finish(clprune_context *context, float beta, size_t groups, size_t step,
    clprune_mat partial, clprune_mat sum, const clprune_mat *second, cl_event *event)
{
    const size_t width = clprune__vector_width(context);
    size_t local = clprune__group_size(context, 128);
    const size_t lanes = clprune__min(FINAL_LANES, local);
    local -= local % lanes;
    const size_t locals[2] = {local, 1};
    const size_t global[2] = {
        clprune__ceil_div(sum.cols, lanes * width) * local, second != NULL ? 2 : 1};
    clprune__defines defines = {0};
    clprune__define(&defines, "LANES", lanes);
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "VW", width);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &column_sum_final_kernel, &defines, &launch));
    launch.least_group = lanes;
    ARG_ULONGS(&launch, groups, step, sum.cols);
    clprune__arg_float(&launch, beta);
    clprune__arg_mat(&launch, partial);
    clprune__arg_mat(&launch, second != NULL ? *second : clprune__untouched(sum));
    clprune__arg_mat(&launch, sum);
    return clprune__launch_enqueue(&launch, 2, global, locals, event);
}

clprune_status clprune__column_sums_final(clprune_context *context, float beta, size_t groups,
    clprune_mat partial, size_t count, const clprune_mat *sums, cl_event *event)
{
    for (size_t i = 0, made; i < count; i += made, partial.offset += made * partial.ld) {
        const bool pair = i + 1 < count && sums[i].cols == sums[i + 1].cols;
        made = pair ? 2 : 1;
        TRY(finish(context, beta, groups, count, partial, sums[i], pair ? &sums[i + 1] : NULL,
            i + made == count ? event : NULL));
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__column_sum(
    clprune_context *context, float beta, clprune_mat x, clprune_mat sum, cl_event *event)
{
    SCRATCH_SCOPE(context);
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    TRY(clprune__check_mat_bf16(context, "x", x, x.rows, x.cols));
    TRY(clprune__check_mat(context, "sum", sum, 1, x.cols));
    TRY(clprune__check_apart(context, "sum", sum, "x", x));
    clprune__rowwise plan = clprune__sums_plan(context, x.rows, x.cols, 1, CLPRUNE__STRIP, 0);
    clprune__narrow_define(context, x, CLPRUNE_NO_MAT, &plan.defines);
    if (plan.groups == 0) {
        TRY(finish(context, beta, 0, 1, sum, sum, NULL, event));
        return CLPRUNE_SUCCESS;
    }
    /* With one group, its partial sums are the result. */
    const bool two_stages = plan.groups > 1 || beta != 0.0f;
    clprune_mat partial = sum;
    if (two_stages)
        TRY(clprune__scratch_mat(context, plan.groups, x.cols, &partial));
    const clprune_mat mats[] = {x, partial};
    TRY(clprune__rowwise_run(
        context, &column_sum_partial_kernel, &plan, 2, mats, two_stages ? NULL : event));
    if (two_stages)
        TRY(finish(context, beta, plan.groups, 1, partial, sum, NULL, event));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__row_sums(
    clprune_context *context, clprune_mat x, size_t tokens, clprune_mat *sums)
{
    *sums = (clprune_mat){.cols = tokens, .ld = tokens};
    if (x.rows > 0 && x.cols > 0)
        TRY(clprune__scratch_mat(context, x.rows / tokens, tokens, sums));
    return CLPRUNE_SUCCESS;
}

/* sum[0][r] = sum_c x[r][c] */
static clprune_status row_sum(clprune_context *context, clprune_mat x, clprune_mat sum)
{
    const clprune__rowwise plan = clprune__team_plan(context, x.rows, x.cols);
    const clprune_mat mats[] = {x, sum};
    return clprune__rowwise_run(context, &row_sum_kernel, &plan, 2, mats, NULL);
}

clprune_status clprune__token_bias_grad(clprune_context *context, float beta, size_t batch,
    size_t tokens, clprune_mat dy, clprune_mat db, cl_event *event)
{
    SCRATCH_SCOPE(context);
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    size_t rows;
    REQUIRE(clprune__mul(batch, tokens, &rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu tokens overflow size_t", batch, tokens);
    TRY(clprune__check_mat(context, "dy", dy, rows, dy.cols));
    TRY(clprune__check_mat(context, "db", db, 1, tokens));
    TRY(clprune__check_apart(context, "db", db, "dy", dy));
    /* First over the features of each row, then over the samples. */
    clprune_mat sums;
    TRY(clprune__row_sums(context, dy, tokens, &sums));
    if (sums.rows > 0)
        TRY(row_sum(context, dy, sums));
    return clprune__column_sum(context, beta, sums, db, event);
}
