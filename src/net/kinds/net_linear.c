/* Linear layers over features and over rows. */
#include "net/kinds/net_linear.h"
#include "net/build/append.h"

#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/layers/layers_private.h"
#include "nn/store/form.h"
#include "runtime/context/check.h"

enum { WEIGHT, BIAS };

static bool over_rows(const clprune__net_layer *layer)
{
    return layer->kind == &clprune__net_linear_rows_kind;
}

static clprune_status linear_create(
    const clprune__net_graph *graph, const clprune__net_layer *layer, clprune__net_unit *unit)
{
    const clprune_linear_desc desc = {.in = layer->set.sizes[0],
        .out = layer->set.sizes[1],
        .axis = over_rows(layer) ? CLPRUNE_AXIS_ROWS : CLPRUNE_AXIS_FEATURES};
    return clprune_linear_create(graph->context, &desc, &unit->op.linear);
}

static void linear_destroy(clprune__net_unit *unit)
{
    clprune_linear_destroy(unit->op.linear);
}

static clprune_status linear_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    return clprune_linear_forward(clprune__net_unit_of(call->net, layer)->op.linear, call->count,
        clprune__net_x(call, 0), clprune__net_param_value(call->net, layer, WEIGHT),
        clprune__net_param_value(call->net, layer, BIAS), clprune__net_y(call),
        call->step->stores ? call->net->body.stores[layer->in[0]] : NULL, NULL);
}

static double linear_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune__net_shape *x = clprune__net_in_shape(graph, layer, 0);
    return (double)x->rows * (double)x->cols * (double)layer->set.sizes[1];
}

static bool linear_gives_bf16(const clprune__net_graph *graph)
{
    return clprune_linear_takes_bf16(graph->context);
}

static bool linear_takes_bf16(
    const clprune__net_graph *graph, const clprune__net_layer *layer, size_t k)
{
    (void)layer;
    (void)k;
    return clprune_linear_takes_bf16(graph->context);
}

const clprune__net_kind clprune__net_linear_kind = {.name = "linear",
    .by_row = clprune__net_by_row,
    .stores = true,
    .coded = true,
    .gives_bf16 = linear_gives_bf16,
    .takes_bf16 = linear_takes_bf16,
    .create = linear_create,
    .destroy = linear_destroy,
    .forward = linear_forward,
    .work = linear_work};
const clprune__net_kind clprune__net_linear_rows_kind = {.name = "linear over rows",
    .stores = true,
    .gives_bf16 = linear_gives_bf16,
    .takes_bf16 = linear_takes_bf16,
    .create = linear_create,
    .destroy = linear_destroy,
    .forward = linear_forward,
    .work = linear_work};

/* y = x w^T + b, or y_n = w x_n + b: dw from x in any form, dx and db from dy. */
static clprune_status linear_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    clprune_saved *store = NULL;
    size_t first = 0;
    if (!layer->frozen)
        TRY(clprune__net_source(call, 0, &store, &first));
    const clprune_grads grads = {.dx = clprune__net_dx(call, 0),
        .dw = clprune__net_grad(call, layer, WEIGHT),
        .db = clprune__net_role_of(call->net, layer)->bias_sums
                  ? CLPRUNE_NO_MAT
                  : clprune__net_grad(call, layer, BIAS),
        .beta = clprune__net_beta(call),
        .dx_beta = clprune__net_dx_beta(call, 0)};
    return clprune__linear_backward(clprune__net_unit_of(call->net, layer)->op.linear,
        (clprune__range){first, call->count}, store, clprune__net_dy(call),
        clprune__net_param_value(call->net, layer, WEIGHT), &grads, NULL);
}

bool clprune__net_linear_narrow_dy(
    const clprune__net_graph *graph, const clprune__net_layer *layer, const clprune_keep *x)
{
    (void)layer;
    return clprune__form_reads_bf16_dy(graph->context, x->form);
}

const clprune__net_way clprune__net_linear_ways[] = {
    {.name = "linear",
        .chain = {&clprune__net_linear_kind},
        .needs = {{0, 0, CLPRUNE__NET_PRODUCT, true}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, true}},
        .narrow_dy = clprune__net_linear_narrow_dy,
        .backward = linear_backward},
    {.name = "linear over rows",
        .chain = {&clprune__net_linear_rows_kind},
        .needs = {{0, 0, CLPRUNE__NET_PRODUCT, true}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, true}},
        .backward = linear_backward},
    {.name = NULL},
};

/* The image that a layer with one row per sample reads flattened. NULL: none. */
static const clprune__net_shape *flattened(const clprune_net *net, size_t v)
{
    const clprune__net_layer *layer = &net->graph.layers[v];
    while (layer->kind != &clprune__net_flatten_kind && layer->ins == 1 && layer->params == 0 &&
           net->graph.values[v].shape.rows == 1) {
        v = layer->in[0];
        layer = &net->graph.layers[v];
    }
    if (layer->kind != &clprune__net_flatten_kind)
        return NULL;
    const clprune__net_shape *image = clprune__net_in_shape(&net->graph, layer, 0);
    return image->grid.height > 0 ? image : NULL;
}

static clprune_net_value add_linear(clprune_net *net, const clprune__net_kind *kind,
    const char *name, clprune_net_value x, size_t out, bool bias)
{
    const clprune__net_value *value = clprune__net_read(net, name, x);
    if (value == NULL)
        return (clprune_net_value){0};
    clprune__net_shape shape = value->shape;
    const bool rows = kind == &clprune__net_linear_rows_kind;
    const size_t in = rows ? shape.rows : shape.cols;
    if (out == 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE, "layer %s has no outputs", name);
    if (rows)
        shape = (clprune__net_shape){out, shape.cols, {0, 0}};
    else
        shape.cols = out;
    clprune__net_layer *layer = clprune__net_add(net, kind, name, &x, 1, shape);
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->set.sizes[0] = in;
    layer->set.sizes[1] = out;
    clprune__net_param weight = {.rank = 2, .shape = {out, in}, .inputs = in, .decay = true};
    const clprune__net_shape *image = rows ? NULL : flattened(net, x.id - 1);
    if (image != NULL)
        weight.image = image->grid;
    clprune__net_add_param(net, ".weight", weight);
    if (bias)
        clprune__net_add_param(
            net, ".bias", (clprune__net_param){.rank = 1, .shape = {out}, .inputs = in});
    return clprune__net_last(net);
}

clprune_net_value clprune__net_add_linear(
    clprune_net *net, const char *name, clprune_net_value x, size_t out, bool bias)
{
    return add_linear(net, &clprune__net_linear_kind, name, x, out, bias);
}

clprune_net_value clprune_net_linear_rows(
    clprune_net *net, const char *name, clprune_net_value x, size_t out)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_linear(net, &clprune__net_linear_rows_kind, name, x, out, true);
}
