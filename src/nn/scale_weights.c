#include "nn/scale_weights.h"

#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/rowwise.h"

clprune_status clprune__scale_weights(clprune_context *context, const clprune__kernel_def *kernel,
    const char *name, clprune_mat scale, size_t length, clprune_mat w, clprune_mat scaled,
    cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, name, scale, 1, length));
    TRY(clprune__check_mat(context, "w", w, w.rows, w.cols));
    TRY(clprune__check_mat(context, "scaled", scaled, w.rows, w.cols));
    if (!clprune__same_mat(scaled, w))
        TRY(clprune__check_apart(context, "scaled", scaled, "w", w));
    TRY(clprune__check_apart(context, "scaled", scaled, name, scale));
    const clprune__rowwise plan = clprune__rowwise_plan(context, w.rows, w.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, w.rows);
    clprune__arg_ulong(&launch, w.cols);
    clprune__arg_mat(&launch, scale);
    clprune__arg_mat(&launch, w);
    clprune__arg_mat(&launch, scaled);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}
