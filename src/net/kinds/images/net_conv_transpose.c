/* Transposed convolutions: the gradient of a convolution from y's images to x's, whose passes are
 * this one's the other way round. */
#include "clprune/positions.h"
#include "core/checked.h"
#include "net/kinds/images/net_conv.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/layers/layers_private.h"
#include "runtime/context/check.h"

enum { WEIGHT, BIAS };

/* The convolution that this one is the gradient of; in: features of x. */
static clprune_conv2d_desc desc_of(const clprune_net_conv *conv, size_t in)
{
    return clprune__net_conv_desc(conv, conv->out, in);
}

static clprune_status transpose_create(
    const clprune__net_graph *graph, const clprune__net_layer *layer, clprune__net_unit *unit)
{
    const clprune_conv2d_desc desc =
        desc_of(&layer->set.conv, clprune__net_in_shape(graph, layer, 0)->cols);
    return clprune_conv2d_create(graph->context, &desc, &unit->op.conv);
}

/* The images of y. */
static clprune_extent grid_of(const clprune__net_call *call, const clprune__net_layer *layer)
{
    return call->net->graph.values[clprune__net_out(&call->net->graph, layer)].shape.grid;
}

static clprune_status transpose_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    const clprune_mat y = clprune__net_y(call);
    const clprune_mat bias = clprune__net_param_value(call->net, layer, BIAS);
    TRY(clprune__conv2d_backward(clprune__net_unit_of(call->net, layer)->op.conv,
        (clprune__range){0, call->count}, grid_of(call, layer), NULL, clprune__net_x(call, 0),
        clprune__net_param_value(call->net, layer, WEIGHT), &(clprune_grads){.dx = y}, NULL));
    return clprune__is_absent(bias)
               ? CLPRUNE_SUCCESS
               : clprune_positions_forward(call->net->context, y.rows, y, bias, y, NULL);
}

static double transpose_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune__net_shape *x = clprune__net_in_shape(graph, layer, 0);
    return (double)x->rows * (double)x->cols *
           (double)clprune__net_conv_inner(&layer->set.conv, layer->set.conv.out);
}

static const clprune__net_kind transpose_kind = {.name = "conv transpose2d",
    .create = transpose_create,
    .destroy = clprune__net_conv_destroy,
    .forward = transpose_forward,
    .work = transpose_work};

/* y = the gradient of y by conv(y, w) with x for that of its result, + b */
static clprune_status transpose_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    clprune_conv2d *conv = clprune__net_unit_of(call->net, layer)->op.conv;
    const clprune_mat dy = clprune__net_dy(call), dx = clprune__net_dx(call, 0);
    const clprune_mat w = clprune__net_param_value(call->net, layer, WEIGHT);
    const clprune_mat dw = clprune__net_grad(call, layer, WEIGHT);
    const clprune_mat db = clprune__net_grad(call, layer, BIAS);
    const clprune_extent grid = grid_of(call, layer);
    if (!clprune__is_absent(dw)) {
        clprune_saved *image;
        size_t first;
        TRY(clprune__net_view(
            call, call->step->out, clprune__net_out(&call->net->graph, layer), &image, &first));
        TRY(clprune__conv2d_backward(conv, (clprune__range){first, call->count}, grid, image,
            clprune__net_operand(call, 0), w,
            &(clprune_grads){.dw = dw, .beta = clprune__net_beta(call)}, NULL));
    }
    if (!clprune__is_absent(db))
        TRY(clprune_positions_backward(
            call->net->context, dy.rows, clprune__net_beta(call), dy, db, NULL));
    if (clprune__is_absent(dx))
        return CLPRUNE_SUCCESS;
    return clprune_conv2d_forward(conv, call->count, grid, dy, w, CLPRUNE_NO_MAT, dx, NULL, NULL);
}

const clprune__net_way clprune__net_conv_transpose_ways[] = {
    {.name = "conv transpose2d",
        .chain = {&transpose_kind},
        .needs = {{0, 0, CLPRUNE__NET_DENSE, true}},
        .needs_count = 1,
        .backward = transpose_backward},
    {.name = NULL},
};

/* A side of y; 0 if it is none. */
static size_t side_of(size_t image, size_t kernel, size_t stride, size_t padding, size_t dilation,
    size_t output_padding)
{
    size_t reach, side;
    stride = stride > 0 ? stride : 1;
    dilation = dilation > 0 ? dilation : 1;
    if (!clprune__mul(image - 1, stride, &side) || kernel == 0 ||
        !clprune__mul(kernel - 1, dilation, &reach) || !clprune__add(side, reach, &side) ||
        !clprune__add(side, output_padding, &side) || side == SIZE_MAX || padding > SIZE_MAX / 2 ||
        side + 1 <= 2 * padding)
        return 0;
    return side + 1 - 2 * padding;
}

clprune_net_value clprune_net_conv_transpose2d(
    clprune_net *net, const char *name, clprune_net_value x, const clprune_net_conv *conv)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *value = clprune__net_read(net, name, x);
    if (value == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape in = value->shape;
    if (!clprune__net_conv_check(net, name, &in, conv))
        return (clprune_net_value){0};
    const clprune_extent grid = {
        side_of(in.grid.height, conv->kernel.height, conv->stride.height, conv->padding.height,
            conv->dilation.height, conv->output_padding.height),
        side_of(in.grid.width, conv->kernel.width, conv->stride.width, conv->padding.width,
            conv->dilation.width, conv->output_padding.width)};
    const clprune_conv2d_desc desc = desc_of(conv, in.cols);
    size_t pixels = 0;
    const bool fits =
        grid.height > 0 && grid.width > 0 && clprune__mul(grid.height, grid.width, &pixels);
    const clprune_extent back = fits ? clprune_conv2d_output(&desc, grid) : grid;
    if (!fits)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its result would be images of %zu x %zu", name, grid.height, grid.width);
    else if (back.height == 0)
        clprune__net_wrong(
            net, CLPRUNE_INVALID_SIZE, "layer %s: %s", name, clprune_last_error(NULL));
    else if (back.height != in.grid.height || back.width != in.grid.width)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its output_padding is %zu x %zu, expected less than the stride", name,
            conv->output_padding.height, conv->output_padding.width);
    clprune__net_layer *layer = clprune__net_add(
        net, &transpose_kind, name, &x, 1, (clprune__net_shape){pixels, conv->out, grid});
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->set.conv = *conv;
    clprune__net_conv_params(net, conv, in.cols, clprune__net_conv_inner(conv, conv->out));
    return clprune__net_last(net);
}
