#include "clprune/max_pool.h"

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def max_pool_forward_kernel = {
    "images/max_pool.cl", "max_pool_forward"};
static const clprune__kernel_def max_pool_backward_kernel = {
    "images/max_pool.cl", "max_pool_backward"};

#define MAX_TAPS     16                /* positions have 4 bits */
#define MAX_SIDE     ((size_t)1 << 28) /* sums of a few fit 32 bits */
#define CPU_ELEMENTS 32768             /* of a group */
#define GPU_ELEMENTS 4096

/* Everything that follows from a description, a batch and the size of an image. */
typedef struct window {
    clprune_extent image, output, kernel, stride, padding;
    size_t rows, output_rows; /* of x and of y */
} window;

/* The size of y along one axis; 0 if no window fits. */
static size_t output_of(size_t image, size_t kernel, size_t stride, size_t padding, bool ceil)
{
    size_t padded;
    if (image == 0 || !clprune__mul(padding, 2, &padded) || !clprune__add(padded, image, &padded) ||
        padded < kernel)
        return 0;
    const size_t output = (padded - kernel) / stride + 1;
    /* one more window, which ends behind the padding, if it begins before the image's end */
    return output + (ceil && (padded - kernel) % stride != 0 && output * stride < image + padding);
}

static clprune_extent stride_of(const clprune_max_pool_desc *desc)
{
    const bool given = desc->stride.height > 0 || desc->stride.width > 0;
    return given ? desc->stride : desc->kernel;
}

/* Sets *w except for its rows, or fails. */
static clprune_status settle(
    clprune_context *context, const clprune_max_pool_desc *desc, clprune_extent image, window *w)
{
    REQUIRE(desc != NULL, CLPRUNE_INVALID_ARGUMENT, "desc is NULL");
    TRY(clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved));
    const clprune_extent kernel = desc->kernel, stride = stride_of(desc), padding = desc->padding;
    REQUIRE(kernel.height > 0 && kernel.width > 0, CLPRUNE_INVALID_ARGUMENT,
        "kernel is %zu x %zu, expected at least 1 x 1", kernel.height, kernel.width);
    REQUIRE(stride.height > 0 && stride.width > 0, CLPRUNE_INVALID_ARGUMENT,
        "stride is %zu x %zu, expected at least 1 x 1, or 0 x 0 for the kernel's size",
        stride.height, stride.width);
    REQUIRE(padding.height <= kernel.height / 2 && padding.width <= kernel.width / 2,
        CLPRUNE_INVALID_ARGUMENT,
        "padding is %zu x %zu, expected at most half of the kernel, %zu x %zu", padding.height,
        padding.width, kernel.height, kernel.width);
    REQUIRE(image.height > 0 && image.width > 0, CLPRUNE_INVALID_ARGUMENT,
        "image is %zu x %zu, expected at least 1 x 1", image.height, image.width);
    const clprune_extent output = {
        output_of(image.height, kernel.height, stride.height, padding.height, desc->ceil),
        output_of(image.width, kernel.width, stride.width, padding.width, desc->ceil)};
    REQUIRE(output.height > 0 && output.width > 0, CLPRUNE_INVALID_ARGUMENT,
        "the kernel, %zu x %zu, is larger than the padded image, %zu x %zu and %zu x %zu",
        kernel.height, kernel.width, image.height, image.width, padding.height, padding.width);
    /* The kernel fits the padded image, and output is at most image + kernel. */
    REQUIRE(image.height <= MAX_SIDE && image.width <= MAX_SIDE && stride.height <= MAX_SIDE &&
                stride.width <= MAX_SIDE && padding.height <= MAX_SIDE && padding.width <= MAX_SIDE,
        CLPRUNE_SIZE_OVERFLOW, "image, stride or padding has a side of more than %zu", MAX_SIDE);
    *w = (window){image, output, kernel, stride, padding, 0, 0};
    return CLPRUNE_SUCCESS;
}

clprune_extent clprune_max_pool_output(const clprune_max_pool_desc *desc, clprune_extent image)
{
    window w;
    return settle(NULL, desc, image, &w) == CLPRUNE_SUCCESS ? w.output : (clprune_extent){0};
}

static clprune_status position_sizes(
    clprune_context *context, size_t rows, size_t cols, clprune_max_pool_sizes *sizes)
{
    REQUIRE(sizes != NULL, CLPRUNE_INVALID_ARGUMENT, "sizes is NULL");
    clprune_max_pool_sizes found = {.rows = rows, .cols = 2 * clprune__ceil_div(cols, 16)};
    *sizes = (clprune_max_pool_sizes){0};
    REQUIRE(clprune__mul3(rows, found.cols, sizeof(cl_uint), &found.bytes), CLPRUNE_SIZE_OVERFLOW,
        "the positions of %zu x %zu overflow size_t", rows, cols);
    *sizes = found;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_max_pool_size_query(size_t rows, size_t cols, clprune_max_pool_sizes *sizes)
{
    return position_sizes(NULL, rows, cols, sizes);
}

static clprune_status measure(clprune_context *context, const clprune_max_pool_desc *desc,
    size_t batch, clprune_extent image, window *w)
{
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    TRY(settle(context, desc, image, w));
    REQUIRE(clprune__mul3(batch, image.height, image.width, &w->rows) &&
                clprune__mul3(batch, w->output.height, w->output.width, &w->output_rows),
        CLPRUNE_SIZE_OVERFLOW, "%zu images of %zu x %zu overflow size_t", batch, image.height,
        image.width);
    return CLPRUNE_SUCCESS;
}

enum { KEEP = 1, NORM = 2 };

/* Begins a launch that writes `lines` lines of `width` pixels x cols. */
static clprune_status begin(clprune_context *context, const clprune__kernel_def *def,
    const window *w, size_t lines, size_t width, size_t cols, unsigned variant,
    clprune__launch *launch, size_t *global, size_t *local)
{
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t vw = clprune__vector_width(context), least = vector ? CPU_ELEMENTS : GPU_ELEMENTS;
    const size_t lanes = clprune__lanes(context, cols, vw, local);
    size_t group_lines = 1;
    while (group_lines * 2 * width * cols <= least && group_lines < lines)
        group_lines *= 2;
    *global = cols == 0 ? 0 : clprune__ceil_div(lines, group_lines) * *local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", *local);
    clprune__define(&defines, "VW", vw);
    clprune__define(&defines, "KEEP", (variant & KEEP) != 0);
    clprune__define(&defines, "NORM", (variant & NORM) != 0);
    TRY(clprune__launch_begin(context, def, &defines, launch));
    launch->least_group = lanes;
    ARG_ULONGS(launch, lines, cols, group_lines);
    clprune__arg_uint(launch, (uint32_t)lanes);
    const clprune_extent all[] = {w->image, w->output, w->kernel, w->stride, w->padding};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        clprune__arg_uint(launch, (uint32_t)all[i].height);
        clprune__arg_uint(launch, (uint32_t)all[i].width);
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status check_taps(clprune_context *context, const window *w, size_t most)
{
    REQUIRE(w->kernel.height <= most && w->kernel.width <= most &&
                w->kernel.height * w->kernel.width <= most,
        CLPRUNE_INVALID_ARGUMENT,
        "positions of a kernel of %zu x %zu, expected at most %zu taps for 4 bits",
        w->kernel.height, w->kernel.width, most);
    return CLPRUNE_SUCCESS;
}

/* bn: NULL for none. */
static clprune_status forward(clprune_context *context, const clprune_max_pool_desc *desc,
    const clprune_batch_norm *bn, size_t batch, clprune_extent image, clprune_mat x, clprune_mat y,
    clprune_mat positions, cl_event *event)
{
    const bool keep = !clprune__is_absent(positions);
    window w;
    clprune_max_pool_sizes sizes;
    TRY(measure(context, desc, batch, image, &w));
    if (keep)
        TRY(check_taps(context, &w, bn != NULL ? MAX_TAPS - 1 : MAX_TAPS));
    TRY(position_sizes(context, w.output_rows, x.cols, &sizes));
    enum { X, MEAN, INV, GAMMA, BETA, Y, POSITIONS, ALL };
    const clprune_batch_norm norm = bn != NULL ? *bn : (clprune_batch_norm){0};
    const bool none = bn == NULL;
    const clprune__operand operands[ALL] = {{"x", x, w.rows, x.cols},
        {"mean", norm.mean, 1, x.cols, .optional = none},
        {"inv", norm.inv, 1, x.cols, .optional = none},
        {"gamma", norm.gamma, 1, x.cols, .optional = none},
        {"beta", norm.beta, 1, x.cols, .optional = none}, {"y", y, w.output_rows, x.cols},
        {"positions", positions, sizes.rows, sizes.cols, .optional = true}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    const unsigned variant = (keep ? KEEP : 0) | (none ? 0 : NORM);
    clprune__launch launch;
    size_t global, local;
    TRY(begin(context, &max_pool_forward_kernel, &w, batch * w.output.height, w.output.width,
        x.cols, variant, &launch, &global, &local));
    clprune__arg_mat(&launch, x);
    for (size_t i = MEAN; i <= BETA; i++)
        clprune__arg_mat(&launch, none ? clprune__untouched(x) : operands[i].mat);
    clprune__arg_mat(&launch, y);
    clprune__arg_mat(&launch, keep ? positions : clprune__untouched(y));
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}

clprune_status clprune_max_pool_forward(clprune_context *context, const clprune_max_pool_desc *desc,
    size_t batch, clprune_extent image, clprune_mat x, clprune_mat y, clprune_mat positions,
    cl_event *event)
{
    ENTER(context);
    return forward(context, desc, NULL, batch, image, x, y, positions, event);
}

clprune_status clprune_max_pool_norm_forward(clprune_context *context,
    const clprune_max_pool_desc *desc, const clprune_batch_norm *bn, size_t batch,
    clprune_extent image, clprune_mat x, clprune_mat y, clprune_mat positions, cl_event *event)
{
    ENTER(context);
    REQUIRE(bn != NULL, CLPRUNE_INVALID_ARGUMENT, "bn is NULL");
    return forward(context, desc, bn, batch, image, x, y, positions, event);
}

/* Forward: y = the maximum of the taps of a window; positions has its tap. */
clprune_status clprune_max_pool_backward(clprune_context *context,
    const clprune_max_pool_desc *desc, size_t batch, clprune_extent image, clprune_mat dy,
    clprune_mat positions, clprune_mat dx, cl_event *event)
{
    ENTER(context);
    window w;
    clprune_max_pool_sizes sizes;
    TRY(measure(context, desc, batch, image, &w));
    TRY(check_taps(context, &w, MAX_TAPS));
    TRY(position_sizes(context, w.output_rows, dy.cols, &sizes));
    enum { DY, POSITIONS, DX, ALL };
    const clprune__operand operands[ALL] = {{"dy", dy, w.output_rows, dy.cols},
        {"positions", positions, sizes.rows, sizes.cols}, {"dx", dx, w.rows, dy.cols}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    clprune__launch launch;
    size_t global, local;
    TRY(begin(context, &max_pool_backward_kernel, &w, batch * image.height, image.width, dy.cols, 0,
        &launch, &global, &local));
    ARG_MATS(&launch, dy, positions, dx);
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}
