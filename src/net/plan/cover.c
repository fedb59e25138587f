/* Ways for layers. Chains come first in the lists, so the longest way that fits is taken. */
#include "net/plan/cover.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/context/check.h"

/* Whether a way ends at layer `last`; fills in its layers. */
static bool way_ends_at(const clprune__net_plan *plan, const clprune__net_way *way, size_t last,
    size_t *layers, size_t *count)
{
    size_t length = 0;
    while (length < CLPRUNE__NET_CHAIN && way->chain[length] != NULL)
        ++length;
    *count = length;
    for (size_t k = length, at = last; k-- > 0;) {
        if (!clprune__net_acts_as(plan->graph->layers[at].kind, way->chain[k]))
            return false;
        layers[k] = at;
        bool found = k == 0;
        for (size_t i = 0; i < plan->graph->layers[layers[k]].ins && !found; ++i) {
            at = plan->graph->layers[layers[k]].in[i];
            found = clprune__net_is_lone(plan->graph, at, way->chain[k - 1]);
        }
        if (!found)
            return false;
    }
    return way->fits == NULL || way->fits(plan->graph, layers);
}

/* Whether an identity would compute gradients that are not wanted. */
static bool has_frozen(const clprune__net_plan *plan, const size_t *layers, size_t count)
{
    for (size_t k = 0; k < count; ++k)
        for (size_t i = 0; i < plan->graph->layers[layers[k]].params; ++i)
            if (plan->graph->params[plan->graph->layers[layers[k]].param[i]].frozen)
                return true;
    return false;
}

static bool allows(const clprune__net_policy *policy, const clprune__net_plan *plan,
    const clprune__net_way *way, size_t first)
{
    const clprune__net_layer *layer = &plan->graph->layers[first];
    const clprune__net_kind *kind = layer->kind->as != NULL ? layer->kind->as : layer->kind;
    const clprune__net_signs signs =
        kind->signs != NULL ? kind->signs(layer) : CLPRUNE__NET_NO_SIGNS;
    if (way->level > policy->level || way->frozen != (layer->frozen && kind->grads.frozen))
        return false;
    if (kind->mask == CLPRUNE_FORM_GELU_CODE) /* with codes it runs alone */
        return way->keeps_mask == (plan->gelu_bits > 0);
    if (signs == CLPRUNE__NET_NO_SIGNS || way->fused)
        return true;
    const bool keeps =
        policy->signs == CLPRUNE__NET_SIGNS_KEPT ||
        (policy->signs == CLPRUNE__NET_SIGNS_OF_SUMS && signs == CLPRUNE__NET_SIGNS_OF_SUM);
    return way->keeps_mask == keeps;
}

static const clprune__net_way *find_way(const clprune__net_plan *plan,
    const clprune__net_policy *policy, size_t last, size_t *layers, size_t *count)
{
    const clprune__net_way *best = NULL;
    size_t found[CLPRUNE__NET_CHAIN], length;
    *count = 0;
    for (size_t i = 0; clprune__net_ways[i] != NULL; ++i)
        for (const clprune__net_way *way = clprune__net_ways[i]; way->name != NULL; ++way)
            if (way_ends_at(plan, way, last, found, &length) &&
                allows(policy, plan, way, found[0]) &&
                !(way->level == 2 && has_frozen(plan, found, length)) &&
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
    return !layer->gone && (layer->ins > 0 || layer->wanted) && !layer->kind->grads.none;
}

static void list_ends(const clprune__net_plan *plan, clprune__net_tile *tile)
{
    for (size_t k = 0; k < tile->count; ++k) {
        const clprune__net_layer *layer = &plan->graph->layers[tile->layers[k]];
        for (size_t i = 0; i < layer->ins; ++i)
            if (k == 0 || layer->in[i] != tile->layers[k - 1])
                tile->ends[tile->ends_count++] = layer->in[i];
    }
}

/* The tile sums its input's gradient, which is the bias gradient of the layer that made it. */
static void take_bias(clprune__net_plan *plan, clprune__net_tile *tile)
{
    const clprune__net_way *way = tile->way;
    if (way->sums == 0)
        return;
    const size_t value = plan->graph->layers[tile->layers[0]].in[way->sums - 1];
    const clprune__net_layer *maker = &plan->graph->layers[value];
    if ((maker->kind != way->sums_for[0] && maker->kind != way->sums_for[1]) ||
        plan->graph->values[value].users > 1 || maker->params < 2)
        return;
    tile->bias_sums = true;
    plan->layers[value].bias_sums = true;
}

clprune_status clprune__net_cover(clprune__net_plan *plan, const clprune__net_policy *policy)
{
    clprune_context *context = plan->graph->context;
    free(plan->tiles);
    plan->tiles = calloc(plan->graph->count, sizeof *plan->tiles);
    plan->tiles_count = 0;
    REQUIRE(plan->tiles != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the net");
    for (size_t i = 0; i < plan->graph->count; ++i) {
        plan->layers[i].tile = SIZE_MAX;
        plan->layers[i].bias_sums = false;
    }
    for (size_t i = plan->graph->count; i-- > 0;) {
        clprune__net_tile tile = {0};
        if (plan->layers[i].tile != SIZE_MAX || !runs(&plan->graph->layers[i]))
            continue;
        tile.way = find_way(plan, policy, i, tile.layers, &tile.count);
        REQUIRE(tile.way != NULL, CLPRUNE_UNSUPPORTED, "layer %s, a %s, has no backward pass",
            plan->graph->layers[i].name, plan->graph->layers[i].kind->name);
        list_ends(plan, &tile);
        for (size_t k = 0; k < tile.count; ++k) {
            plan->layers[tile.layers[k]].tile = plan->tiles_count;
            plan->layers[tile.layers[k]].tile_last = i;
        }
        plan->tiles[plan->tiles_count++] = tile;
    }
    for (size_t i = 0; i < plan->tiles_count / 2; ++i) { /* in the order of their last layers */
        const clprune__net_tile tile = plan->tiles[i];
        plan->tiles[i] = plan->tiles[plan->tiles_count - 1 - i];
        plan->tiles[plan->tiles_count - 1 - i] = tile;
    }
    for (size_t i = 0; i < plan->graph->count; ++i)
        if (plan->layers[i].tile != SIZE_MAX)
            plan->layers[i].tile = plan->tiles_count - 1 - plan->layers[i].tile;
    for (size_t i = 0; i < plan->tiles_count; ++i)
        take_bias(plan, &plan->tiles[i]);
    return CLPRUNE_SUCCESS;
}
