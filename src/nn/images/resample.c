#include "nn/images/resample_private.h"

#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def resample_kernel = {"images/resample.cl", "resample"};

clprune_status clprune__resample(clprune_context *context, size_t batch, clprune_extent image,
    clprune_extent output, size_t tall, size_t wide, clprune_mat table, clprune_mat x,
    clprune_mat y, cl_event *event)
{
    TRY(clprune__check_mat(context, "x", x, batch * image.height * image.width, x.cols));
    TRY(clprune__check_mat(context, "y", y, batch * output.height * output.width, x.cols));
    TRY(clprune__check_apart(context, "y", y, "x", x));
    const clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &resample_kernel, &plan, &launch));
    ARG_ULONGS(&launch, image.height, image.width, output.height, output.width, tall, wide);
    ARG_MATS(&launch, table, x, y);
    return clprune__rowwise_end(&launch, &plan, event);
}
