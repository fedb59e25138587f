/* Convolutions. */
#include "net/kinds/images/net_conv.h"

#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/layers/layers_private.h"
#include "runtime/context/check.h"

enum { WEIGHT, BIAS };

clprune_conv2d_desc clprune__net_conv_desc(const clprune_net_conv *conv, size_t in, size_t out)
{
    return (clprune_conv2d_desc){.in = in,
        .out = out,
        .kernel = conv->kernel,
        .stride = conv->stride,
        .padding = conv->padding,
        .dilation = conv->dilation,
        .groups = conv->groups};
}

void clprune__net_conv_destroy(clprune__net_unit *unit)
{
    clprune_conv2d_destroy(unit->op.conv);
}

size_t clprune__net_conv_inner(const clprune_net_conv *conv, size_t features)
{
    const size_t groups = conv->groups > 0 ? conv->groups : 1;
    return features / groups * conv->kernel.height * conv->kernel.width;
}

bool clprune__net_conv_check(
    clprune_net *net, const char *name, const clprune__net_shape *in, const clprune_net_conv *conv)
{
    if (conv == NULL || conv->out == 0 || in->grid.height == 0) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            conv == NULL || conv->out == 0 ? "layer %s has no outputs"
                                           : "layer %s: its input is not an image",
            name);
        return false;
    }
    for (size_t i = 0; i < sizeof conv->reserved / sizeof *conv->reserved; ++i)
        if (conv->reserved[i] != 0)
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: a reserved field is not 0; zero-initialise clprune_net_conv", name);
    return true;
}

void clprune__net_conv_params(
    clprune_net *net, const clprune_net_conv *conv, size_t rows, size_t inner)
{
    clprune__net_add_param(net, ".weight",
        (clprune__net_param){.rank = 4,
            .shape = {rows, inner / (conv->kernel.height * conv->kernel.width), conv->kernel.height,
                conv->kernel.width},
            .inputs = inner,
            .decay = true,
            .image = conv->kernel});
    if (conv->bias)
        clprune__net_add_param(
            net, ".bias", (clprune__net_param){.rank = 1, .shape = {conv->out}, .inputs = inner});
}

/* Of a layer on such an input. */
static clprune_conv2d_desc desc_of(const clprune_net_conv *conv, size_t in)
{
    return clprune__net_conv_desc(conv, in, conv->out);
}

static clprune_status conv_create(
    const clprune__net_graph *graph, const clprune__net_layer *layer, clprune__net_unit *unit)
{
    const clprune_conv2d_desc desc =
        desc_of(&layer->set.conv, clprune__net_in_shape(graph, layer, 0)->cols);
    return clprune_conv2d_create(graph->context, &desc, &unit->op.conv);
}

static clprune_status conv_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    return clprune_conv2d_forward(clprune__net_unit_of(call->net, layer)->op.conv, call->count,
        clprune__net_in_shape(&call->net->graph, layer, 0)->grid, clprune__net_x(call, 0),
        clprune__net_param_value(call->net, layer, WEIGHT),
        clprune__net_param_value(call->net, layer, BIAS), clprune__net_y(call),
        call->step->stores ? call->net->body.stores[layer->in[0]] : NULL, NULL);
}

static double conv_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune__net_shape *y = &graph->values[clprune__net_out(graph, layer)].shape;
    return (double)y->rows * (double)y->cols *
           (double)clprune__net_conv_inner(
               &layer->set.conv, clprune__net_in_shape(graph, layer, 0)->cols);
}

static bool conv_takes_bf16(
    const clprune__net_graph *graph, const clprune__net_layer *layer, size_t k)
{
    const clprune__net_shape *x = clprune__net_in_shape(graph, layer, k);
    const clprune_conv2d_desc desc = desc_of(&layer->set.conv, x->cols);
    return clprune_conv2d_takes_bf16(graph->context, &desc, x->grid);
}

const clprune__net_kind clprune__net_conv_kind = {.name = "conv2d",
    .stores = true,
    .takes_bf16 = conv_takes_bf16,
    .create = conv_create,
    .destroy = clprune__net_conv_destroy,
    .forward = conv_forward,
    .work = conv_work};

/* y = conv(x, w) + b */
static clprune_status conv_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    clprune_saved *store = NULL;
    size_t first = 0;
    if (!layer->frozen)
        TRY(clprune__net_source(call, 0, &store, &first));
    return clprune__conv2d_backward(clprune__net_unit_of(call->net, layer)->op.conv,
        (clprune__range){first, call->count},
        clprune__net_in_shape(&call->net->graph, layer, 0)->grid, store, clprune__net_dy(call),
        clprune__net_param_value(call->net, layer, WEIGHT),
        &(clprune_grads){.dx = clprune__net_dx(call, 0),
            .dw = clprune__net_grad(call, layer, WEIGHT),
            .db = clprune__net_grad(call, layer, BIAS),
            .beta = clprune__net_beta(call),
            .dx_beta = clprune__net_dx_beta(call, 0)},
        NULL);
}

static bool conv_narrow_dy(
    const clprune__net_graph *graph, const clprune__net_layer *layer, const clprune_keep *x)
{
    const clprune__net_shape *in = clprune__net_in_shape(graph, layer, 0);
    const clprune_conv2d_desc desc = desc_of(&layer->set.conv, in->cols);
    return clprune__conv2d_backward_reads_bf16(graph->context, &desc, in->grid, x);
}

const clprune__net_way clprune__net_conv_ways[] = {
    {.name = "conv2d",
        .chain = {&clprune__net_conv_kind},
        .needs = {{0, 0, CLPRUNE__NET_PRODUCT, true}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, true}},
        .narrow_dy = conv_narrow_dy,
        .backward = conv_backward},
    {.name = NULL},
};

/* Images are read channels last: the bytes of the input become a value first. */
static clprune_net_value pixels(clprune_net *net, clprune_net_value x)
{
    if (net->graph.layers[x.id - 1].kind->gives != CLPRUNE__NET_BYTES)
        return x;
    for (size_t i = 1; i < net->graph.count; ++i)
        if (net->graph.layers[i].kind == &clprune__net_pixels_kind &&
            net->graph.layers[i].in[0] == x.id - 1)
            return (clprune_net_value){net->serial, (uint32_t)i + 1};
    (void)clprune__net_add_input(net, &clprune__net_pixels_kind, "image", &x, 1,
        net->graph.layers[x.id - 1].set.input, net->graph.values[x.id - 1].shape);
    return clprune__net_last(net);
}

clprune_net_value clprune_net_conv2d(
    clprune_net *net, const char *name, clprune_net_value x, const clprune_net_conv *conv)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (clprune__net_read(net, name, x) == NULL)
        return (clprune_net_value){0};
    x = pixels(net, x);
    const clprune__net_value *value = clprune__net_read(net, name, x);
    if (value == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape in = value->shape;
    if (!clprune__net_conv_check(net, name, &in, conv))
        return (clprune_net_value){0};
    const clprune_conv2d_desc desc = desc_of(conv, in.cols);
    const clprune_extent grid = clprune_conv2d_output(&desc, in.grid);
    if (grid.height == 0)
        clprune__net_wrong(
            net, CLPRUNE_INVALID_SIZE, "layer %s: %s", name, clprune_last_error(NULL));
    clprune__net_layer *layer = clprune__net_add(net, &clprune__net_conv_kind, name, &x, 1,
        (clprune__net_shape){grid.height * grid.width, conv->out, grid});
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->set.conv = *conv;
    clprune__net_conv_params(net, conv, conv->out, clprune__net_conv_inner(conv, in.cols));
    return clprune__net_last(net);
}
