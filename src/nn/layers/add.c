#include "clprune/add.h"

#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def add_kernel = {"layers/add.cl", "add"};

clprune_status clprune_add(clprune_context *context, float alpha, clprune_mat a, float beta,
    clprune_mat b, clprune_mat y, cl_event *event)
{
    ENTER(context);
    const bool two = !clprune__is_absent(b);
    enum { A, B, Y, ALL };
    const clprune__operand operands[ALL] = {{"a", a, a.rows, a.cols},
        {"b", b, a.rows, a.cols, .optional = true},
        {"y", y, a.rows, a.cols, .in_place = 1u << A | 1u << B}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    clprune__rowwise plan = clprune__rowwise_plan(context, a.rows, a.cols);
    clprune__define(&plan.defines, "TWO", two);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &add_kernel, &plan, &launch));
    ARG_FLOATS(&launch, alpha, beta);
    ARG_MATS(&launch, a, two ? b : clprune__untouched(a), y);
    return clprune__rowwise_end(&launch, &plan, event);
}
