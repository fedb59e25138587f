#include "clprune/positions.h"

#include "core/checked.h"
#include "nn/layers/sums.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def positions_forward_kernel = {
    "tokens/positions.cl", "positions_forward"};
static const clprune__kernel_def positions_backward_kernel = {
    "tokens/positions.cl", "positions_backward"};

static clprune_status count_rows(
    clprune_context *context, size_t batch, size_t tokens, size_t *rows)
{
    REQUIRE(clprune__mul(batch, tokens, rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu rows overflow size_t", batch, tokens);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_positions_forward(clprune_context *context, size_t batch, clprune_mat x,
    clprune_mat p, clprune_mat y, cl_event *event)
{
    ENTER(context);
    const bool has_x = !clprune__is_absent(x);
    size_t rows;
    TRY(count_rows(context, batch, p.rows, &rows));
    enum { X, P, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, rows, p.cols, .optional = true},
        {"p", p, p.rows, p.cols}, {"y", y, rows, p.cols, .in_place = 1u << X}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    clprune__rowwise plan = clprune__rowwise_plan(context, rows, p.cols);
    clprune__define(&plan.defines, "HAS_X", has_x);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &positions_forward_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, p.rows);
    ARG_MATS(&launch, has_x ? x : clprune__untouched(y), p, y);
    return clprune__rowwise_end(&launch, &plan, event);
}

/* Forward: y[n * rows + q] = x[n * rows + q] + p[q]. Work-groups share the rows q; one row alone is
 * summed in parts. */
clprune_status clprune_positions_backward(clprune_context *context, size_t batch, float beta,
    clprune_mat dy, clprune_mat dp, cl_event *event)
{
    ENTER(context);
    size_t rows;
    TRY(count_rows(context, batch, dp.rows, &rows));
    enum { DY, DP, ALL };
    const clprune__operand operands[ALL] = {
        {"dy", dy, rows, dp.cols}, {"dp", dp, dp.rows, dp.cols}};
    TRY(clprune__check_operands(context, operands, DP, ALL));
    if (dp.rows == 1)
        return clprune__column_sum(context, beta, dy, dp, event);
    const clprune__rowwise plan = clprune__rowwise_plan(context, dp.rows, dp.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &positions_backward_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, batch);
    clprune__arg_float(&launch, beta);
    ARG_MATS(&launch, dy, dp);
    return clprune__rowwise_end(&launch, &plan, event);
}
