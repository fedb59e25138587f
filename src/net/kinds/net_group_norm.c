/* Group norm over each sample's rows and groups of features. The statistics of the first pass are
 * kept, 8 bytes a group: y made again from a restored x is linear in x. */
#include "clprune/group_norm.h"

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

enum { GAMMA, BETA };

static clprune_mat stats_of(const clprune__net_call *call, const clprune__net_layer *layer)
{
    return clprune_mat_rows(
        clprune__net_unit_of(call->net, layer)->state[0], call->first, call->count);
}

static clprune_status group_norm_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    const clprune_mat gamma = clprune__net_param_value(call->net, layer, GAMMA);
    const clprune_mat beta = clprune__net_param_value(call->net, layer, BETA);
    const clprune_mat x = clprune__net_x(call, 0), y = clprune__net_y(call);
    const size_t groups = layer->set.sizes[0];
    if (call->step->again)
        return clprune_group_norm_apply(call->net->context, call->count, groups, x,
            stats_of(call, layer), gamma, beta, y, NULL);
    return clprune_group_norm_forward(call->net->context, call->count, groups, layer->eps, x, gamma,
        beta, y, stats_of(call, layer), NULL);
}

static const clprune__net_kind group_norm_kind = {
    .name = "group_norm", .grads = {.joint = true}, .over = true, .forward = group_norm_forward};

/* y = gamma * (x - mean) * inv + beta */
static clprune_status group_norm_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    return clprune_group_norm_backward(call->net->context, call->count, layer->set.sizes[0],
        clprune__net_beta(call), clprune__net_dx_beta(call, 0), clprune__net_operand(call, 0),
        stats_of(call, layer), clprune__net_param_value(call->net, layer, GAMMA),
        clprune__net_dy(call), clprune__net_dx(call, 0),
        &(clprune_group_norm){
            clprune__net_grad(call, layer, GAMMA), clprune__net_grad(call, layer, BETA)},
        NULL);
}

static clprune_status create_stats(clprune_net *net, const size_t *layers)
{
    return clprune_mat_create(net->context, CLPRUNE_MEMORY_ACTIVATIONS, "group norm statistics",
        net->graph.desc.batch, 2 * net->graph.layers[layers[0]].set.sizes[0],
        &net->body.units[layers[0]].state[0]);
}

enum { SUM_BITS = 8 }; /* of codes of x, as of a layer norm's */

const clprune__net_way clprune__net_group_norm_ways[] = {
    {.name = "group norm",
        .chain = {&group_norm_kind},
        .needs = {{0, 0, CLPRUNE__NET_DENSE, false, SUM_BITS}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, true}},
        .create = create_stats,
        .backward = group_norm_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_group_norm(
    clprune_net *net, const char *name, clprune_net_value x, size_t groups)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const size_t d = in->shape.cols;
    if (groups == 0 || d % groups != 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: it has %zu groups, expected a divisor of the %zu features", name, groups, d);
    clprune__net_layer *layer = clprune__net_add_norm(net, &group_norm_kind, name, x, true);
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->set.sizes[0] = groups;
    return clprune__net_last(net);
}
