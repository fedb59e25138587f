/* Layers that become one. */
#include "net/rewrite/merge.h"

#include <string.h>

#include "net/kinds/kinds.h"
#include "net/net_private.h"

static void count_users(clprune_net *net)
{
    for (size_t i = 0; i < net->graph.count; ++i)
        net->draft.values[i].users = net->draft.values[i].last_user = 0;
    for (size_t i = 0; i < net->graph.count; ++i)
        for (size_t k = 0; k < net->graph.layers[i].ins && !net->graph.layers[i].gone; ++k) {
            net->draft.values[net->graph.layers[i].in[k]].users++;
            net->draft.values[net->graph.layers[i].in[k]].last_user = i;
        }
    net->draft.values[net->graph.output].users++; /* the loss */
}

/* The maker of a value, if the value has one user and this kind of maker; else NULL. */
static clprune__net_layer *lone_maker(clprune_net *net, size_t value, const clprune__net_kind *kind)
{
    return clprune__net_is_lone(&net->graph, value, kind) ? &net->draft.layers[value] : NULL;
}

/* relu(bn(x)), or relu(bn(x) + r) with r on either side, becomes one batch norm in relu's place. */
static bool merge_relu(clprune_net *net, clprune__net_layer *relu)
{
    const clprune__net_kind *norm_kind = &clprune__net_batch_norm_kind;
    clprune__net_layer *norm = lone_maker(net, relu->in[0], norm_kind);
    clprune__net_layer *sum = lone_maker(net, relu->in[0], &clprune__net_add_kind);
    size_t residual = 0;
    for (size_t k = 0; k < 2 && sum != NULL && norm == NULL; ++k) {
        norm = lone_maker(net, sum->in[k], norm_kind);
        residual = sum->in[1 - k];
    }
    if (norm == NULL || norm->ins > 1 || norm->set.relu)
        return false;
    relu->kind = norm_kind;
    relu->in[0] = norm->in[0];
    relu->in[1] = residual;
    relu->ins = sum != NULL ? 2 : 1;
    memcpy(relu->param, norm->param, sizeof norm->param);
    relu->params = norm->params;
    relu->set.relu = true;
    relu->norm = norm->norm;
    relu->eps = norm->eps;
    relu->momentum = norm->momentum;
    norm->gone = true;
    if (sum != NULL)
        sum->gone = true;
    return true;
}

/* mean(affine(x)) = affine(mean(x)) */
static bool merge_mean(clprune_net *net, clprune__net_layer *mean)
{
    clprune__net_layer *affine = mean->kind == &clprune__net_mean_kind
                                     ? lone_maker(net, mean->in[0], &clprune__net_affine_kind)
                                     : NULL;
    if (affine == NULL)
        return false;
    const clprune__net_kind *kind = mean->kind;
    mean->kind = affine->kind;
    memcpy(mean->param, affine->param, sizeof affine->param);
    mean->params = affine->params;
    affine->kind = kind;
    affine->params = 0;
    net->draft.values[mean->in[0]].shape =
        net->graph.values[clprune__net_out(&net->graph, mean)].shape;
    char *name = mean->name;
    mean->name = affine->name;
    affine->name = name;
    return true;
}

void clprune__net_merge(clprune_net *net)
{
    count_users(net);
    for (size_t i = 1; i < net->graph.count; ++i)
        if (net->graph.layers[i].kind == &clprune__net_relu_kind
                ? merge_relu(net, &net->draft.layers[i])
                : merge_mean(net, &net->draft.layers[i]))
            count_users(net);
    for (size_t i = 0; i < net->graph.params_count; ++i)
        if (net->graph.params[i].tied != 0 &&
            net->graph.params[net->graph.params[i].tied - 1].frozen)
            net->draft.params[i].frozen = true;
    for (size_t i = 0; i < net->graph.params_count; ++i) /* another one that is tied may train it */
        if (!net->graph.params[i].frozen)
            net->draft.params[i].stored = CLPRUNE_VALUES_FP32;
    for (size_t i = 0; i < net->graph.count; ++i) {
        clprune__net_layer *layer = &net->draft.layers[i];
        layer->frozen = layer->params > 0;
        for (size_t k = 0; k < layer->params; ++k) {
            clprune__net_param *param = &net->draft.params[layer->param[k]];
            layer->frozen = layer->frozen && param->frozen;
            if (!layer->gone)
                param->layer = i; /* the one into which its own was merged, if that was */
        }
        net->draft.values[i].trained = (layer->params > 0 && !layer->frozen) || layer->wanted;
        for (size_t k = 0; k < layer->ins; ++k)
            net->draft.values[i].trained |= net->graph.values[layer->in[k]].trained;
    }
}
