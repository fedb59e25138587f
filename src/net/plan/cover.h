/* Merges layers and chooses a way for each. */
#ifndef CLPRUNE_NET_COVER_H
#define CLPRUNE_NET_COVER_H

#include "net/net_private.h"

/* What the ways of a preset may be. */
typedef struct clprune__net_policy {
    unsigned level; /* clprune__net_way.level, at most */
    enum { CLPRUNE__NET_SIGNS_AGAIN, CLPRUNE__NET_SIGNS_OF_SUMS, CLPRUNE__NET_SIGNS_KEPT } signs;
    /* which ReLUs keep a bit per element: none, those of sums, all */
} clprune__net_policy;

/* plan->tiles. Errors: OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_cover(clprune__net_plan *plan, const clprune__net_policy *policy);

/* The tile that runs a layer backward; NULL: none. */
static inline const clprune__net_tile *clprune__net_tile_of(
    const clprune__net_plan *plan, size_t layer)
{
    const size_t tile = plan->layers[layer].tile;
    return tile != SIZE_MAX ? &plan->tiles[tile] : NULL;
}

/* The tile whose fused pass makes a layer's output; NULL: the layer makes it alone. */
static inline const clprune__net_tile *clprune__net_fused(
    const clprune__net_plan *plan, size_t layer)
{
    const clprune__net_tile *tile = clprune__net_tile_of(plan, layer);
    return tile != NULL && tile->way->fused ? tile : NULL;
}

/* What a value is made from, by its layer or its fused chain. Returns how many there are. */
static inline size_t clprune__net_inputs(const clprune__net_plan *plan, size_t v, const size_t **in)
{
    const clprune__net_tile *fused = clprune__net_fused(plan, v);
    *in = fused != NULL ? fused->ends : plan->graph->layers[v].in;
    return fused != NULL ? fused->ends_count : plan->graph->layers[v].ins;
}

#endif
