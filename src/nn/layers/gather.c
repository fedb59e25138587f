#include "nn/layers/gather_private.h"

#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def gather_kernel = {"layers/gather.cl", "gather"};

clprune_status clprune__gather(clprune_context *context, size_t run, size_t cols, size_t at,
    clprune_mat table, clprune_mat x, clprune_mat y, cl_event *event)
{
    enum { X, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, y.rows, x.cols}, {"y", y, y.rows, y.cols}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    const size_t each = run > 1 ? run : cols, lines = y.cols / each;
    clprune__rowwise plan = clprune__rowwise_plan(context, y.rows * lines, each);
    clprune__define(&plan.defines, "RUNS", run > 1);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &gather_kernel, &plan, &launch));
    ARG_ULONGS(&launch, lines, y.cols / run, at);
    ARG_MATS(&launch, table, x, y);
    return clprune__rowwise_end(&launch, &plan, event);
}
