#include "clprune/shuffle.h"

#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def shuffle_kernel = {
    "layers/shuffle.cl", "shuffle_features"}; /* OpenCL has a shuffle */

clprune_status clprune_shuffle(
    clprune_context *context, size_t groups, clprune_mat x, clprune_mat y, cl_event *event)
{
    ENTER(context);
    REQUIRE(groups > 0 && x.cols % groups == 0, CLPRUNE_INVALID_ARGUMENT,
        "groups is %zu, expected a divisor of the %zu columns", groups, x.cols);
    enum { X, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, x.rows, x.cols}, {"y", y, x.rows, x.cols}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &shuffle_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, groups);
    ARG_MATS(&launch, x, y);
    return clprune__rowwise_end(&launch, &plan, event);
}
