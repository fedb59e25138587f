/* Convolutions: shapes, the products that they are, and the parameters that kernels share. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/mma.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/context_private.h"

/* Sizes along one axis. */
typedef struct axis {
    size_t image, output, kernel, stride, padding, dilation;
} axis;

static axis vertical(const clprune__conv *c)
{
    return (axis){c->image.height, c->output.height, c->kernel.height, c->stride.height,
        c->padding.height, c->dilation.height};
}

static axis horizontal(const clprune__conv *c)
{
    return (axis){c->image.width, c->output.width, c->kernel.width, c->stride.width,
        c->padding.width, c->dilation.width};
}

/* Positions and sums of a few sides have 31 bits in the kernels. */
static bool in_range(axis a)
{
    size_t reach;
    return a.image <= CLPRUNE__CONV_SIDE && a.padding <= CLPRUNE__CONV_SIDE &&
           a.stride <= CLPRUNE__CONV_SIDE && clprune__mul(a.dilation, a.kernel - 1, &reach) &&
           reach < CLPRUNE__CONV_SIDE;
}

bool clprune__conv_in_range(const clprune__conv *conv)
{
    return in_range(vertical(conv)) && in_range(horizontal(conv));
}

/* (image + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; 0 if the kernel does not fit.
 */
static size_t output_of(axis a)
{
    const size_t padded = a.image + 2 * a.padding, reach = a.dilation * (a.kernel - 1) + 1;
    return a.image == 0 || reach > padded ? 0 : (padded - reach) / a.stride + 1;
}

bool clprune__conv_settle(clprune__conv *conv)
{
    conv->output = (clprune_extent){output_of(vertical(conv)), output_of(horizontal(conv))};
    return conv->output.height > 0 && conv->output.width > 0;
}

bool clprune__conv_is_linear(const clprune__conv *c)
{
    return c->groups <= 1 && c->kernel.height == 1 && c->kernel.width == 1 &&
           c->stride.height == 1 && c->stride.width == 1 && c->padding.height == 0 &&
           c->padding.width == 0;
}

clprune_extent clprune__conv_grid(const clprune__conv *conv, size_t cell)
{
    if (cell == 1)
        return conv->output;
    return (clprune_extent){
        clprune__ceil_div(conv->image.height, cell), clprune__ceil_div(conv->image.width, cell)};
}

clprune__conv_gather clprune__conv_forward_job(const clprune__conv *conv)
{
    return (clprune__conv_gather){.batch = conv->batch,
        .n = conv->out,
        .k = conv->in,
        .grid = conv->output,
        .source = conv->image,
        .result = conv->output,
        .step = conv->stride,
        .spread = {1, 1},
        .taps = conv->kernel,
        .first_y = -(ptrdiff_t)conv->padding.height,
        .first_x = -(ptrdiff_t)conv->padding.width,
        .tap_step_y = (ptrdiff_t)conv->dilation.height,
        .tap_step_x = (ptrdiff_t)conv->dilation.width,
        .weight_step = {1, 1},
        .kernel_width = conv->kernel.width};
}

/* The taps that reach the pixels p = u * stride + shift of an axis:
 *     u * stride + shift = i * stride + a * dilation - padding
 * so i = u + (shift + padding - a * dilation) / stride for those a where that is whole. */
typedef struct reach {
    size_t pixels; /* u < pixels */
    size_t taps, first_tap, tap_step;
    ptrdiff_t first, step; /* i = u + first + (number of the tap) * step */
} reach;

static reach reach_of(axis a, size_t shift)
{
    reach r = {.pixels = a.image > shift ? (a.image - shift - 1) / a.stride + 1 : 0};
    const ptrdiff_t stride = (ptrdiff_t)a.stride, dilation = (ptrdiff_t)a.dilation,
                    from = (ptrdiff_t)(shift + a.padding);
    for (size_t tap = 0; tap < a.kernel; tap++) {
        const ptrdiff_t distance = from - (ptrdiff_t)tap * dilation;
        if (distance % stride != 0)
            continue;
        if (r.taps == 0) {
            r.first_tap = tap;
            r.first = distance / stride;
        } else if (r.taps == 1) {
            r.tap_step = tap - r.first_tap;
            r.step = distance / stride - r.first;
        }
        r.taps++;
    }
    return r;
}

clprune__conv_gather clprune__conv_dx_job(const clprune__conv *conv, size_t y, size_t x)
{
    const reach ry = reach_of(vertical(conv), y), rx = reach_of(horizontal(conv), x);
    const bool none = ry.taps == 0 || rx.taps == 0;
    return (clprune__conv_gather){.batch = conv->batch,
        .back = true,
        .n = conv->in,
        .k = conv->out,
        .grid = {ry.pixels, rx.pixels},
        .source = conv->output,
        .result = conv->image,
        .step = {1, 1},
        .spread = conv->stride,
        .shift = {y, x},
        .taps = {none ? 0 : ry.taps, none ? 0 : rx.taps},
        .first_y = ry.first,
        .first_x = rx.first,
        .tap_step_y = ry.step,
        .tap_step_x = rx.step,
        .weight_first = {ry.first_tap, rx.first_tap},
        .weight_step = {ry.tap_step, rx.tap_step},
        .kernel_width = conv->kernel.width};
}

size_t clprune__conv_shared_tap(size_t tap, size_t dilation, size_t padding, size_t side)
{
    const ptrdiff_t first = -(ptrdiff_t)padding, at = first + (ptrdiff_t)(tap * dilation);
    return (size_t)(clprune__floor_div(at, (ptrdiff_t)side) -
                    clprune__floor_div(first, (ptrdiff_t)side));
}

/* Images and cells must consist of whole sides, so that padding is reached by whole sides too; and
 * each tap of coarse must have one of conv. */
static bool shares_side(const clprune__conv *conv, size_t cell, size_t side)
{
    const clprune_extent s = conv->stride, i = conv->image, d = conv->dilation, k = conv->kernel;
    return cell % side == 0 && s.height % side == 0 && s.width % side == 0 &&
           i.height % side == 0 && i.width % side == 0 && (k.height == 1 || d.height <= side) &&
           (k.width == 1 || d.width <= side);
}

size_t clprune__conv_share_taps(const clprune__conv *conv, size_t cell, clprune__conv *coarse)
{
    const clprune_extent s = conv->stride, i = conv->image, d = conv->dilation, k = conv->kernel;
    size_t side = clprune__min(cell, clprune__min(s.height, s.width));
    while (side > 1 && !shares_side(conv, cell, side))
        side--;
    *coarse = *conv;
    if (side == 1)
        return 1;
    coarse->image = (clprune_extent){i.height / side, i.width / side};
    coarse->stride = (clprune_extent){s.height / side, s.width / side};
    coarse->padding = (clprune_extent){clprune__ceil_div(conv->padding.height, side),
        clprune__ceil_div(conv->padding.width, side)};
    coarse->dilation = (clprune_extent){1, 1};
    coarse->kernel = (clprune_extent){
        1 + clprune__conv_shared_tap(k.height - 1, d.height, conv->padding.height, side),
        1 + clprune__conv_shared_tap(k.width - 1, d.width, conv->padding.width, side)};
    return side;
}

size_t clprune__conv_terms(const clprune_context *context, size_t k)
{
    return context->ops->pairs != CLPRUNE__PAIRS_NONE ? clprune__ceil_div(k, 2) : k;
}

bool clprune__conv_uses_vectors(const clprune_context *context)
{
    return context->kernels == CLPRUNE_KERNELS_VECTOR || !clprune__gemm_tiled_fits(context);
}

bool clprune__conv_dw_tiled_flattens(const clprune__conv *conv)
{
    enum { MOST_TAPS = 16 }; /* along an axis: a bit each in a half of a word */
    return conv->kernel.height <= MOST_TAPS && conv->kernel.width <= MOST_TAPS;
}

size_t clprune__conv_row_vector(clprune_mat mat, size_t unit)
{
    return mat.offset % 4 == 0 && mat.ld % 4 == 0 && unit % 4 == 0 ? 4 : 1;
}

void clprune__arg_conv(clprune__launch *launch, const clprune__conv *conv)
{
    clprune__arg_uint(launch, (uint32_t)conv->image.height);
    clprune__arg_uint(launch, (uint32_t)conv->image.width);
    clprune__arg_uint(launch, (uint32_t)conv->output.height);
    clprune__arg_uint(launch, (uint32_t)conv->output.width);
    clprune__arg_uint(launch, (uint32_t)(conv->kernel.height * conv->kernel.width));
    clprune__arg_uint(launch, (uint32_t)conv->kernel.width);
    const clprune_extent pairs[] = {conv->stride, conv->padding, conv->dilation};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        clprune__arg_uint(launch, (uint32_t)pairs[i].height);
        clprune__arg_uint(launch, (uint32_t)pairs[i].width);
    }
}

void clprune__arg_gather_pixels(clprune__launch *launch, const clprune__conv_gather *job)
{
    const clprune_extent pairs[] = {
        job->grid, job->source, job->result, job->step, job->spread, job->shift};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        clprune__arg_uint(launch, (uint32_t)pairs[i].height);
        clprune__arg_uint(launch, (uint32_t)pairs[i].width);
    }
    clprune__arg_uint(launch, (uint32_t)job->taps.width);
    clprune__arg_uint(launch, (uint32_t)job->first_y);
    clprune__arg_uint(launch, (uint32_t)job->first_x);
    clprune__arg_uint(launch, (uint32_t)job->tap_step_y);
    clprune__arg_uint(launch, (uint32_t)job->tap_step_x);
}

size_t clprune__conv_result_vector(const clprune__conv_gather *job)
{
    const bool aligned = clprune__is_absent(job->bias) || job->bias.offset % 4 == 0;
    return aligned ? clprune__conv_row_vector(job->to, job->n) : 1;
}

clprune_status clprune__conv_enqueue_tiles(clprune__launch *launch, const clprune__conv_gather *job,
    const clprune__gemm_tile *tile, clprune_mat w, cl_event *event)
{
    const size_t rows = job->batch * job->grid.height * job->grid.width;
    const size_t taps = job->taps.height * job->taps.width, local = tile->local;
    const size_t global =
        clprune__ceil_div(job->n, tile->cols) * clprune__ceil_div(rows, tile->rows) * local;
    const bool bias = !clprune__is_absent(job->bias);
    clprune__arg_gather_pixels(launch, job);
    clprune__arg_float(launch, job->beta);
    clprune__arg_uint(launch, bias);
    ARG_MATS(launch, job->from, w);
    clprune__arg_mat(launch, bias ? job->bias : clprune__untouched(w));
    clprune__arg_mat(launch, job->to);
    clprune__launch_multiplies(launch, clprune__precision_on(launch->context, tile->mma),
        (double)rows * (double)job->n * (double)job->k * (double)taps);
    return clprune__launch_enqueue(launch, 1, &global, &local, event);
}

void clprune__arg_gather_weights(clprune__launch *launch, const clprune__conv_gather *job)
{
    clprune__arg_uint(launch, (uint32_t)job->kernel_width);
    clprune__arg_uint(launch, (uint32_t)job->weight_first.height);
    clprune__arg_uint(launch, (uint32_t)job->weight_first.width);
    clprune__arg_uint(launch, (uint32_t)job->weight_step.height);
    clprune__arg_uint(launch, (uint32_t)job->weight_step.width);
}

void clprune__arg_gather_operands(
    clprune__launch *launch, const clprune__conv_gather *job, clprune__region packed)
{
    const bool bias = !clprune__is_absent(job->bias);
    clprune__arg_float(launch, job->beta);
    clprune__arg_uint(launch, bias);
    clprune__arg_mat(launch, job->from);
    clprune__arg_region(launch, packed);
    clprune__arg_mat(launch, bias ? job->bias : clprune__untouched(job->from));
    clprune__arg_mat(launch, job->to);
}
