/* Ways for layers. Chains come first in the lists, so the longest way that fits is taken. */
#include "net/plan/cover.h"

#include <stdlib.h>
#include <string.h>

#include "net/graph.h"
#include "net/layers/kinds.h"
#include "runtime/context/check.h"

/* ---- merging -----------------------------------------------------------------------------------
 */

static void count_users(clprune_net *net)
{
    for (size_t i = 0; i < net->count; ++i)
        net->values[i].users = net->values[i].last_user = 0;
    for (size_t i = 0; i < net->count; ++i)
        for (size_t k = 0; k < net->layers[i].ins && !net->layers[i].gone; ++k) {
            net->values[net->layers[i].in[k]].users++;
            net->values[net->layers[i].in[k]].last_user = i;
        }
    net->values[net->output].users++; /* the loss */
}

/* The maker of a value, if the value has one user and this kind of maker; else NULL. */
static clprune__net_layer *lone_maker(
    const clprune_net *net, size_t value, const clprune__net_kind *kind)
{
    clprune__net_layer *maker = &net->layers[value];
    return clprune__net_acts_as(maker->kind, kind) && net->values[value].users == 1 &&
                   value != net->output
               ? maker
               : NULL;
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
    net->values[mean->in[0]].shape = net->values[clprune__net_out(net, mean)].shape;
    char *name = mean->name;
    mean->name = affine->name;
    affine->name = name;
    return true;
}

void clprune__net_merge(clprune_net *net)
{
    count_users(net);
    for (size_t i = 1; i < net->count; ++i)
        if (net->layers[i].kind == &clprune__net_relu_kind ? merge_relu(net, &net->layers[i])
                                                           : merge_mean(net, &net->layers[i]))
            count_users(net);
    for (size_t i = 0; i < net->params_count; ++i)
        if (net->params[i].tied != 0 && net->params[net->params[i].tied - 1].frozen)
            net->params[i].frozen = true;
    for (size_t i = 0; i < net->count; ++i) {
        clprune__net_layer *layer = &net->layers[i];
        layer->frozen = layer->params > 0;
        for (size_t k = 0; k < layer->params; ++k) {
            clprune__net_param *param = &net->params[layer->param[k]];
            layer->frozen = layer->frozen && param->frozen;
            if (!layer->gone)
                param->layer = i; /* the one into which its own was merged, if that was */
        }
        net->values[i].trained = layer->params > 0 && !layer->frozen;
        for (size_t k = 0; k < layer->ins; ++k)
            net->values[i].trained |= net->values[layer->in[k]].trained;
    }
}

/* ---- tiles -------------------------------------------------------------------------------------
 */

/* Whether a way ends at layer `last`; fills in its layers. */
static bool way_ends_at(
    const clprune_net *net, const clprune__net_way *way, size_t last, size_t *layers, size_t *count)
{
    size_t length = 0;
    while (length < CLPRUNE__NET_CHAIN && way->chain[length] != NULL)
        ++length;
    *count = length;
    for (size_t k = length, at = last; k-- > 0;) {
        if (!clprune__net_acts_as(net->layers[at].kind, way->chain[k]))
            return false;
        layers[k] = at;
        bool found = k == 0;
        for (size_t i = 0; i < net->layers[layers[k]].ins && !found; ++i) {
            at = net->layers[layers[k]].in[i];
            found = lone_maker(net, at, way->chain[k - 1]) != NULL;
        }
        if (!found)
            return false;
    }
    return way->fits == NULL || way->fits(net, layers);
}

/* Whether the kind of a way has another way for frozen parameters. */
static bool has_frozen_way(const clprune__net_way *way)
{
    return way->chain[0] == &clprune__net_affine_kind ||
           way->chain[0] == &clprune__net_layerscale_kind;
}

/* Whether an identity would compute gradients that are not wanted. */
static bool has_frozen(const clprune_net *net, const size_t *layers, size_t count)
{
    for (size_t k = 0; k < count; ++k)
        for (size_t i = 0; i < net->layers[layers[k]].params; ++i)
            if (net->params[net->layers[layers[k]].param[i]].frozen)
                return true;
    return false;
}

/* Whether a way has a GELU: with kept codes of the derivative, GELU runs alone. */
static bool reads_gelu(const clprune__net_way *way)
{
    return way->chain[0] == &clprune__net_gelu_kind;
}

static bool allows(const clprune__net_policy *policy, const clprune_net *net,
    const clprune__net_way *way, size_t first)
{
    const clprune__net_layer *layer = &net->layers[first];
    const bool relu = layer->kind == &clprune__net_relu_kind;
    const bool signs = relu || (layer->kind == &clprune__net_batch_norm_kind && layer->set.relu);
    if (way->level > policy->level || way->frozen != (layer->frozen && has_frozen_way(way)))
        return false;
    if (net->gelu_bits > 0 && reads_gelu(way))
        return way->keeps_mask;
    if (clprune__net_acts_as(layer->kind, &clprune__net_gelu_kind))
        return !way->keeps_mask;
    if (!signs || way->fused)
        return true;
    const bool keeps = policy->signs == CLPRUNE__NET_SIGNS_KEPT ||
                       (policy->signs == CLPRUNE__NET_SIGNS_OF_SUMS && (relu || layer->ins > 1));
    return way->keeps_mask == keeps;
}

static const clprune__net_way *find_way(const clprune_net *net, const clprune__net_policy *policy,
    size_t last, size_t *layers, size_t *count)
{
    const clprune__net_way *const lists[] = {clprune__net_identities, clprune__net_stem_ways,
        clprune__net_input_ways, clprune__net_linear_ways, clprune__net_affine_ways,
        clprune__net_layerscale_ways, clprune__net_activation_ways, clprune__net_pool_ways,
        clprune__net_batch_norm_ways, clprune__net_conv_ways, clprune__net_add_ways,
        clprune__net_element_ways, clprune__net_layer_norm_ways, clprune__net_attention_ways,
        clprune__net_token_ways, clprune__net_lora_ways};
    const clprune__net_way *best = NULL;
    size_t found[CLPRUNE__NET_CHAIN], length;
    *count = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i)
        for (const clprune__net_way *way = lists[i]; way->name != NULL; ++way)
            if (way_ends_at(net, way, last, found, &length) && allows(policy, net, way, found[0]) &&
                !(way->level == 2 && has_frozen(net, found, length)) &&
                (length > *count || (length == *count && way->level > best->level))) {
                best = way;
                *count = length;
                memcpy(layers, found, sizeof found);
            }
    return best;
}

/* Whether a layer computes something that runs backward. */
static bool runs(const clprune__net_layer *layer)
{
    return !layer->gone && layer->ins > 0 && layer->kind != &clprune__net_pixels_kind;
}

static void list_ends(const clprune_net *net, clprune__net_tile *tile)
{
    for (size_t k = 0; k < tile->count; ++k) {
        const clprune__net_layer *layer = &net->layers[tile->layers[k]];
        for (size_t i = 0; i < layer->ins; ++i)
            if (k == 0 || layer->in[i] != tile->layers[k - 1])
                tile->ends[tile->ends_count++] = layer->in[i];
    }
}

/* The tile sums its input's gradient, which is the bias gradient of the layer that made it. */
static void take_bias(clprune_net *net, clprune__net_tile *tile)
{
    const clprune__net_layer *first = &net->layers[tile->layers[0]];
    if (tile->way->sums == 0)
        return;
    const size_t value = first->in[tile->way->sums - 1];
    clprune__net_layer *linear = &net->layers[value];
    const bool rows = linear->kind == &clprune__net_linear_rows_kind;
    if ((linear->kind != &clprune__net_linear_kind &&
            !(rows && first->kind == &clprune__net_layerscale_kind)) ||
        net->values[value].users > 1 || linear->params < 2)
        return;
    tile->bias_sums = true;
    linear->bias_sums = true;
}

clprune_status clprune__net_cover(clprune_net *net, const clprune__net_policy *policy)
{
    clprune_context *context = net->context;
    free(net->tiles);
    net->tiles = calloc(net->count, sizeof *net->tiles);
    net->tiles_count = 0;
    REQUIRE(net->tiles != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the net");
    for (size_t i = 0; i < net->count; ++i) {
        net->layers[i].tile = SIZE_MAX;
        net->layers[i].bias_sums = false;
    }
    for (size_t i = net->count; i-- > 0;) {
        clprune__net_tile tile = {0};
        if (net->layers[i].tile != SIZE_MAX || !runs(&net->layers[i]))
            continue;
        tile.way = find_way(net, policy, i, tile.layers, &tile.count);
        REQUIRE(tile.way != NULL, CLPRUNE_UNSUPPORTED, "layer %s, a %s, has no backward pass",
            net->layers[i].name, net->layers[i].kind->name);
        list_ends(net, &tile);
        for (size_t k = 0; k < tile.count; ++k) {
            net->layers[tile.layers[k]].tile = net->tiles_count;
            net->layers[tile.layers[k]].tile_last = i;
        }
        net->tiles[net->tiles_count++] = tile;
    }
    for (size_t i = 0; i < net->tiles_count / 2; ++i) { /* in the order of their last layers */
        const clprune__net_tile tile = net->tiles[i];
        net->tiles[i] = net->tiles[net->tiles_count - 1 - i];
        net->tiles[net->tiles_count - 1 - i] = tile;
    }
    for (size_t i = 0; i < net->count; ++i)
        if (net->layers[i].tile != SIZE_MAX)
            net->layers[i].tile = net->tiles_count - 1 - net->layers[i].tile;
    for (size_t i = 0; i < net->tiles_count; ++i)
        take_bias(net, &net->tiles[i]);
    return CLPRUNE_SUCCESS;
}
