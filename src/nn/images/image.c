#include "nn/images/image_private.h"

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/context/verbose.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/arena.h"

static const clprune__kernel_def image_channels_last_kernel = {
    "images/image.cl", "image_channels_last"};
static const clprune__kernel_def image_bytes_channels_last_kernel = {
    "images/image.cl", "image_bytes_channels_last"};

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

/* Channels, pixels of an image, elements of an image, rows of y. */
typedef struct sizes {
    size_t channels, pixels, image, rows;
} sizes;

static clprune_status measure(
    clprune_context *context, size_t batch, size_t channels, clprune_extent image, sizes *s)
{
    size_t all;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    s->channels = channels;
    REQUIRE(clprune__mul(image.height, image.width, &s->pixels) &&
                clprune__mul(s->pixels, channels, &s->image) &&
                clprune__mul(batch, s->pixels, &s->rows) && clprune__mul(batch, s->image, &all),
        CLPRUNE_SIZE_OVERFLOW, "%zu images of %zu x %zu x %zu overflow size_t", batch, channels,
        image.height, image.width);
    return CLPRUNE_SUCCESS;
}

/* Launches one of the two kernels; `bytes` is NULL if the images are floats. */
static clprune_status channels_last(clprune_context *context, const sizes *s, clprune_mat images,
    const clprune_image_bytes *bytes, clprune_mat y, cl_event *event)
{
    const clprune__rowwise plan = clprune__rowwise_plan(context, s->rows, s->channels);
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", plan.local);
    clprune__launch launch;
    TRY(clprune__launch_begin(context,
        bytes != NULL ? &image_bytes_channels_last_kernel : &image_channels_last_kernel, &defines,
        &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, s->rows, plan.group_rows, s->pixels, s->channels);
    if (bytes != NULL)
        clprune__arg_image_bytes(&launch, *bytes);
    else
        clprune__arg_mat(&launch, images);
    clprune__arg_mat(&launch, y);
    return clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event);
}

clprune_status clprune_image_channels_last(clprune_context *context, size_t batch, size_t channels,
    clprune_extent image, clprune_mat images, clprune_mat y, cl_event *event)
{
    ENTER(context);
    sizes s;
    TRY(measure(context, batch, channels, image, &s));
    TRY(clprune__check_mat(context, "images", images, batch, s.image));
    TRY(clprune__check_mat(context, "y", y, s.rows, channels));
    TRY(clprune__check_apart(context, "y", y, "images", images));
    return channels_last(context, &s, images, NULL, y, event);
}

clprune_status clprune_image_bytes_channels_last(clprune_context *context, size_t batch,
    size_t channels, clprune_extent image, clprune_image_bytes images, clprune_mat y,
    cl_event *event)
{
    ENTER(context);
    sizes s;
    TRY(measure(context, batch, channels, image, &s));
    TRY(clprune__check_image_bytes(context, images, batch, channels, s.image));
    TRY(clprune__check_mat(context, "y", y, s.rows, channels));
    TRY(clprune__check_image_apart(context, "y", y, images, batch * s.image));
    return channels_last(context, &s, CLPRUNE_NO_MAT, &images, y, event);
}
