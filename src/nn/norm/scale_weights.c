#include "nn/norm/scale_weights.h"

#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

clprune_status clprune__scale_weights(clprune_context *context, const clprune__kernel_def *kernel,
    const char *name, clprune_mat scale, size_t length, clprune_mat w, clprune_mat scaled,
    cl_event *event)
{
    enum { SCALE, W, SCALED, ALL };
    const clprune__operand operands[ALL] = {{name, scale, 1, length}, {"w", w, w.rows, w.cols},
        {"scaled", scaled, w.rows, w.cols, .in_place = 1u << W}};
    TRY(clprune__check_operands(context, operands, SCALED, ALL));
    const clprune__rowwise plan = clprune__rowwise_plan(context, w.rows, w.cols);
    const clprune_mat mats[ALL] = {scale, w, scaled};
    return clprune__rowwise_run(context, kernel, &plan, ALL, mats, event);
}
