/* Layer norm and RMS norm over each row's features. The statistics of the first pass are kept, 8 or
 * 4 bytes a row: y made again from a restored x is linear in x. */
#include "clprune/layer_norm.h"

#include "clprune/rms_norm.h"

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

enum { GAMMA, BETA };

static clprune_mat stats_of(const clprune__net_call *call, const clprune__net_layer *layer)
{
    const size_t rows = clprune__net_in_shape(&call->net->graph, layer, 0)->rows;
    return clprune_mat_rows(
        clprune__net_unit_of(call->net, layer)->state[0], call->first * rows, call->count * rows);
}

static clprune_status create_stats(clprune_net *net, size_t layer, const char *name, size_t cols)
{
    return clprune_mat_create(net->context, CLPRUNE_MEMORY_ACTIVATIONS, name,
        net->graph.desc.batch * net->graph.values[layer].shape.rows, cols,
        &net->body.units[layer].state[0]);
}

static clprune_status norm_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    const clprune_mat gamma = clprune__net_param_value(call->net, layer, GAMMA);
    const clprune_mat beta = clprune__net_param_value(call->net, layer, BETA);
    const clprune_mat x = clprune__net_x(call, 0), y = clprune__net_y(call);
    if (call->step->again)
        return clprune_layer_norm_apply(
            call->net->context, x, stats_of(call, layer), gamma, beta, y, NULL);
    return clprune_layer_norm_forward(call->net->context, layer->eps, x, gamma, beta, y,
        call->training ? stats_of(call, layer) : CLPRUNE_NO_MAT, NULL);
}

static const clprune__net_kind layer_norm_kind = {.name = "layer_norm",
    .by_row = clprune__net_by_row,
    .grads = {.joint = true},
    .over = true,
    .gives_bf16 = clprune__net_gives_bf16,
    .takes_bf16 = clprune__net_takes_bf16,
    .forward = norm_forward};

/* y = gamma * (x - mean) * inv + beta */
static clprune_status norm_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    return clprune_layer_norm_backward(call->net->context, clprune__net_beta(call),
        clprune__net_dx_beta(call, 0), clprune__net_operand(call, 0), stats_of(call, layer),
        clprune__net_param_value(call->net, layer, GAMMA), clprune__net_dy(call),
        clprune__net_dx(call, 0),
        &(clprune_layer_norm){
            clprune__net_grad(call, layer, GAMMA), clprune__net_grad(call, layer, BETA)},
        NULL);
}

static clprune_status create_layer_stats(clprune_net *net, const size_t *layers)
{
    return create_stats(net, layers[0], "layer norm statistics", 2);
}

/* ---- RMS norm ----------------------------------------------------------------------------------
 */

static clprune_status rms_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    const clprune_mat gamma = clprune__net_param_value(call->net, layer, GAMMA);
    const clprune_mat x = clprune__net_x(call, 0), y = clprune__net_y(call);
    if (call->step->again)
        return clprune_rms_norm_apply(call->net->context, x, stats_of(call, layer), gamma, y, NULL);
    return clprune_rms_norm_forward(call->net->context, layer->eps, x, gamma, y,
        call->training ? stats_of(call, layer) : CLPRUNE_NO_MAT, NULL);
}

static const clprune__net_kind rms_kind = {.name = "rms_norm",
    .by_row = clprune__net_by_row,
    .over = true,
    .gives_bf16 = clprune__net_gives_bf16,
    .takes_bf16 = clprune__net_takes_bf16,
    .forward = rms_forward};

/* y = gamma * x * inv */
static clprune_status rms_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    return clprune_rms_norm_backward(call->net->context, clprune__net_beta(call),
        clprune__net_dx_beta(call, 0), clprune__net_operand(call, 0), stats_of(call, layer),
        clprune__net_param_value(call->net, layer, GAMMA), clprune__net_dy(call),
        clprune__net_dx(call, 0), clprune__net_grad(call, layer, GAMMA), NULL);
}

static clprune_status create_rms_stats(clprune_net *net, const size_t *layers)
{
    return create_stats(net, layers[0], "RMS norm statistics", 1);
}

/* Of codes of x, and of the terms that a sum of a residual path is made from: the error of one is
 * in all norms behind it. */
enum { SUM_BITS = 8 };

const clprune__net_way clprune__net_layer_norm_ways[] = {
    {.name = "layer norm",
        .chain = {&layer_norm_kind},
        .needs = {{0, 0, CLPRUNE__NET_NARROW, false, SUM_BITS}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, true}},
        .create = create_layer_stats,
        .backward = norm_backward},
    {.name = "RMS norm",
        .chain = {&rms_kind},
        .needs = {{0, 0, CLPRUNE__NET_NARROW, false, SUM_BITS}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, true}},
        .create = create_rms_stats,
        .backward = rms_backward},
    {.name = NULL},
};

clprune__net_layer *clprune__net_add_norm(clprune_net *net, const clprune__net_kind *kind,
    const char *name, clprune_net_value x, bool shifted)
{
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return NULL;
    const size_t d = in->shape.cols;
    clprune__net_layer *layer = clprune__net_add(net, kind, name, &x, 1, in->shape);
    if (layer == NULL)
        return NULL;
    layer->eps = net->draft.eps;
    clprune__net_add_param(
        net, ".weight", (clprune__net_param){.rank = 1, .shape = {d}, .value = 1});
    if (shifted)
        clprune__net_add_param(net, ".bias", (clprune__net_param){.rank = 1, .shape = {d}});
    return layer;
}

static clprune_net_value add_norm(clprune_net *net, const clprune__net_kind *kind, const char *name,
    clprune_net_value x, bool shifted)
{
    const clprune__net_layer *layer = clprune__net_add_norm(net, kind, name, x, shifted);
    return layer != NULL ? clprune__net_last(net) : (clprune_net_value){0};
}

clprune_net_value clprune_net_layer_norm(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_norm(net, &layer_norm_kind, name, x, true);
}

clprune_net_value clprune_net_rms_norm(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_norm(net, &rms_kind, name, x, false);
}
