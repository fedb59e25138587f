#include "clprune/upsample.h"

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def forward_kernel = {"images/upsample.cl", "upsample_forward"};
static const clprune__kernel_def backward_kernel = {"images/upsample.cl", "upsample_backward"};

/* Enqueues a kernel that reads `in` and writes `out`; one of them is small, the other large. */
static clprune_status run(clprune_context *context, const clprune__kernel_def *kernel,
    clprune_extent factor, size_t batch, clprune_extent image, const char *const names[2],
    clprune_mat in, clprune_mat out, cl_event *event)
{
    size_t small, large;
    REQUIRE(factor.height > 0 && factor.width > 0, CLPRUNE_INVALID_ARGUMENT,
        "factor is %zu x %zu, expected at least 1 x 1", factor.height, factor.width);
    REQUIRE(clprune__mul3(batch, image.height, image.width, &small) &&
                clprune__mul3(small, factor.height, factor.width, &large),
        CLPRUNE_SIZE_OVERFLOW, "%zu images of %zu x %zu, %zu x %zu times as large, overflow size_t",
        batch, image.height, image.width, factor.height, factor.width);
    const bool forward = kernel == &forward_kernel;
    TRY(clprune__check_mat(context, names[0], in, forward ? small : large, in.cols));
    TRY(clprune__check_mat(context, names[1], out, forward ? large : small, in.cols));
    TRY(clprune__check_apart(context, names[1], out, names[0], in));
    const clprune__rowwise plan = clprune__rowwise_plan(context, out.rows, out.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, kernel, &plan, &launch));
    ARG_ULONGS(&launch, image.width, factor.height, factor.width);
    ARG_MATS(&launch, in, out);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_upsample_forward(clprune_context *context, clprune_extent factor,
    size_t batch, clprune_extent image, clprune_mat x, clprune_mat y, cl_event *event)
{
    static const char *const names[] = {"x", "y"};
    ENTER(context);
    return run(context, &forward_kernel, factor, batch, image, names, x, y, event);
}

/* Forward: y[n, i, j] = x[n, i / factor.height, j / factor.width]. */
clprune_status clprune_upsample_backward(clprune_context *context, clprune_extent factor,
    size_t batch, clprune_extent image, clprune_mat dy, clprune_mat dx, cl_event *event)
{
    static const char *const names[] = {"dy", "dx"};
    ENTER(context);
    return run(context, &backward_kernel, factor, batch, image, names, dy, dx, event);
}
