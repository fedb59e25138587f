#include "clprune/image.h"

#include "core/checked.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/rowwise.h"

static const clprune__kernel_def image_channels_last_kernel = {
    "image.cl", "image_channels_last", ""};

clprune_status clprune_image_channels_last(clprune_context *context, size_t batch, size_t channels,
    clprune_extent image, clprune_mat images, clprune_mat y, cl_event *event)
{
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
    size_t pixels, cols, rows;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(clprune__mul(image.height, image.width, &pixels) &&
                clprune__mul(pixels, channels, &cols) && clprune__mul(batch, pixels, &rows),
        CLPRUNE_SIZE_OVERFLOW, "%zu images of %zu x %zu x %zu overflow size_t", batch, channels,
        image.height, image.width);
    enum { IMAGES, Y, ALL };
    const clprune__operand operands[ALL] = {
        {"images", images, batch, cols}, {"y", y, rows, channels}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    const clprune__rowwise plan = clprune__rowwise_plan(context, rows, channels);
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", plan.local);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &image_channels_last_kernel, &defines, &launch));
    launch.least_group = 1;
    clprune__arg_ulong(&launch, rows);
    clprune__arg_ulong(&launch, plan.group_rows);
    clprune__arg_ulong(&launch, pixels);
    clprune__arg_ulong(&launch, channels);
    clprune__arg_mat(&launch, images);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}
