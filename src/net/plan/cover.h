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

/* Once per net: ReLU goes into the batch norm before it, with the addition between them; a mean
 * behind an affine goes before it. */
void clprune__net_merge(clprune_net *net);

/* net->tiles. Errors: OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_cover(clprune_net *net, const clprune__net_policy *policy);

/* The tile whose fused pass makes a layer's output; NULL: the layer makes it alone. */
static inline const clprune__net_tile *clprune__net_fused(const clprune_net *net, size_t layer)
{
    const size_t tile = net->layers[layer].tile;
    return tile != SIZE_MAX && net->tiles[tile].way->fused ? &net->tiles[tile] : NULL;
}

#endif
