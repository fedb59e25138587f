#include "nn/images/image_private.h"

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/context/verbose.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/arena.h"

static const clprune__kernel_def bytes_kernel = {"images/image.cl", "image_bytes_channels_last"};
static const clprune__kernel_def planes_kernel = {"images/image.cl", "image_channels_last"};

clprune_status clprune__check_image_bytes(clprune_context *context, clprune_image_bytes images,
    size_t batch, size_t channels, size_t size)
{
    enum { LEVELS = 256 };
    const size_t count = batch * size;
    size_t end = 0;
    if (count > 0) {
        REQUIRE(images.buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "images has no buffer");
        REQUIRE(clprune__add(images.offset, count, &end), CLPRUNE_SIZE_OVERFLOW,
            "images: offset + size overflows size_t");
        TRY(clprune__check_buffer(context, "images", images.buffer, end, 1));
        if (context->verbose != NULL)
            clprune__verbose_operand(context->verbose, "images",
                (clprune_mat){
                    images.buffer, images.offset, batch, size, size, CLPRUNE_VALUES_FP32});
    }
    return clprune__check_mat(context, "images.levels", images.levels, channels, LEVELS);
}

clprune_status clprune__check_image_apart(clprune_context *context, const char *name,
    clprune_mat mat, clprune_image_bytes images, size_t count)
{
    const clprune__bytes bytes = {images.buffer, images.offset, count};
    TRY(clprune__check_bytes_apart(context, name, clprune__bytes_of(mat), "images", bytes));
    return clprune__check_apart(context, name, mat, "images.levels", images.levels);
}

void clprune__arg_image_bytes(clprune__launch *launch, clprune_image_bytes images)
{
    const clprune__window window = clprune__window_of(images.buffer);
    clprune__arg_mem(launch, window.whole);
    clprune__arg_ulong(launch, images.offset + window.origin);
    clprune__arg_mat(launch, images.levels);
}

/* From bytes, or from x where they are NULL. */
static clprune_status channels_last(clprune_context *context, size_t pixels,
    const clprune_image_bytes *bytes, clprune_mat x, clprune_mat y, cl_event *event)
{
    const clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", plan.local);
    clprune__launch launch;
    TRY(clprune__launch_begin(
        context, bytes != NULL ? &bytes_kernel : &planes_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, y.rows, plan.group_rows, pixels, y.cols);
    if (bytes != NULL)
        clprune__arg_image_bytes(&launch, *bytes);
    else
        clprune__arg_mat(&launch, x);
    clprune__arg_mat(&launch, y);
    return clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event);
}

clprune_status clprune_image_bytes_channels_last(clprune_context *context, size_t batch,
    size_t channels, clprune_extent image, clprune_image_bytes images, clprune_mat y,
    cl_event *event)
{
    ENTER(context);
    size_t pixels, size, all, rows;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(clprune__mul3(image.height, image.width, channels, &size) &&
                clprune__mul(batch, size, &all) &&
                clprune__mul(image.height, image.width, &pixels) &&
                clprune__mul(batch, pixels, &rows),
        CLPRUNE_SIZE_OVERFLOW, "%zu images of %zu x %zu x %zu overflow size_t", batch, channels,
        image.height, image.width);
    TRY(clprune__check_image_bytes(context, images, batch, channels, size));
    TRY(clprune__check_mat(context, "y", y, rows, channels));
    TRY(clprune__check_image_apart(context, "y", y, images, all));
    return channels_last(context, pixels, &images, CLPRUNE_NO_MAT, y, event);
}

clprune_status clprune__image_channels_last(
    clprune_context *context, clprune_mat x, clprune_mat y, cl_event *event)
{
    return channels_last(context, y.rows / x.rows, NULL, x, y, event);
}
