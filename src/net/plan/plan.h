/* A plan: which values are kept and how, and both passes as lists of steps.
 *
 *     tiles                 each a way: how one layer, or a chain of them, runs backward, and what
 *                           that needs of their values
 *     choices               which values are kept, and in which form
 *     steps                 both passes as a list, made from tiles and choices
 *
 * A value is used in a pass from its store, if that is dense, or from a slot: a workspace matrix
 * that values share one after the other. */
#ifndef CLPRUNE_NET_PLAN_H
#define CLPRUNE_NET_PLAN_H

#include "clprune/saved.h"
#include "net/build/graph.h"

/* Where a matrix is. */
typedef struct clprune__net_place {
    enum { CLPRUNE__NET_NOWHERE, CLPRUNE__NET_SLOT, CLPRUNE__NET_STORE } at;
    size_t id;  /* of the slot or the value */
    bool whole; /* a slot with all samples of the batch; else with those of a chunk */
    bool bf16;  /* a slot whose elements are bf16 */
} clprune__net_place;

typedef enum clprune__net_act {
    CLPRUNE__NET_LOOP, /* for the samples of the batch in chunks of region `id` ... */
    CLPRUNE__NET_END_LOOP,
    CLPRUNE__NET_FORWARD, /* layer `id` */
    CLPRUNE__NET_KEEP,    /* value `id`, from `out` to its store */
    CLPRUNE__NET_RESTORE, /* value `id`, from its store to `out` */
    CLPRUNE__NET_BEGIN,   /* tile `id`: begin, backward, end */
    CLPRUNE__NET_BACKWARD,
    CLPRUNE__NET_END,
    CLPRUNE__NET_SUM,   /* out += in[0]; both of value `id` */
    CLPRUNE__NET_COPY,  /* out = in[0]; likewise */
    CLPRUNE__NET_DONE,  /* gradients of region `id` */
    CLPRUNE__NET_FORGET /* slot `id` */
} clprune__net_act;

typedef struct clprune__net_step {
    clprune__net_act act;
    size_t id;
    bool again;                               /* FORWARD: makes a value again */
    bool stores;                              /* FORWARD: stores its first input */
    clprune__net_place in[CLPRUNE__NET_ENDS]; /* inputs; backward: what the way needs */
    bool last[CLPRUNE__NET_NEEDS];            /* nothing reads it afterwards */
    clprune__net_place out;                   /* output; backward: dy */
    clprune__net_place dx[CLPRUNE__NET_ENDS]; /* nowhere: not wanted, or passed on */
    bool adds[CLPRUNE__NET_ENDS];             /* dx is added to what is there */
    clprune__net_place temp[CLPRUNE__NET_TEMPS];
    clprune__net_size temp_size[CLPRUNE__NET_TEMPS];
} clprune__net_step;

/* Layers that run their backward pass together. */
typedef struct clprune__net_tile {
    const clprune__net_way *way;
    size_t layers[CLPRUNE__NET_CHAIN], count;
    size_t ends[CLPRUNE__NET_ENDS], ends_count; /* the values that come from outside */
    bool bias_sums; /* it also computes the bias gradient of the layer before it */
} clprune__net_tile;

/* Tiles whose values between them live for a chunk of samples at a time. */
typedef struct clprune__net_region {
    size_t first, last; /* layers */
    size_t chunk;       /* samples at a time */
} clprune__net_region;

typedef struct clprune__net_steps {
    clprune__net_step *steps;
    size_t count, room;
} clprune__net_steps;

/* What the plan decides of a value. */
typedef struct clprune__net_choice {
    bool needed;  /* by the backward pass */
    bool product; /* only by products */
    bool ruled;   /* the caller decided `kept` and `keep` */
    bool kept;    /* it has a store */
    bool rounded; /* to bf16 where it is kept, or made again from such values */
    clprune_keep keep;
} clprune__net_choice;

/* What it decides of a layer. */
typedef struct clprune__net_role {
    size_t tile;       /* that runs it backward; SIZE_MAX: none */
    size_t tile_last;  /* the last layer of the tile */
    size_t made_again; /* max pool: samples at a time whose positions its region's backward pass
                          makes again; 0: none */
    bool bias_sums;    /* the tile behind this layer also computes its bias gradient */
} clprune__net_role;

/* A buffer for tensors that are live one after the other. */
typedef struct clprune__net_slot {
    size_t elements;
    char name[64];
} clprune__net_slot;

struct clprune__net_plan {
    const clprune__net_graph *graph;
    clprune__net_choice *values; /* (graph->count) */
    clprune__net_role *layers;   /* likewise */
    clprune__net_tile *tiles;    /* in the order of their last layers */
    size_t tiles_count;
    clprune__net_region *regions;
    size_t regions_count;
    clprune__net_slot *slots;
    size_t slots_count;
    clprune__net_steps forward, inference, backward;
    size_t products;       /* clprune_net_keep */
    bool small_products;   /* some small ones run again, too: price.c */
    bool adapter_products; /* so do those of adapters */
    unsigned gelu_bits;    /* of the codes of GELU's derivative; 0: none are kept */
};

/* Whether a layer is one of a region. */
static inline bool clprune__net_is_in(const clprune__net_region *region, size_t layer)
{
    return layer >= region->first && layer <= region->last;
}

/* Whether a tile reads what its way's need k names: not for gradients of frozen parameters. */
static inline bool clprune__net_is_needed(
    const clprune__net_graph *graph, const clprune__net_tile *tile, size_t k)
{
    const clprune__net_need *need = &tile->way->needs[k];
    return !need->params || !graph->layers[tile->layers[need->layer]].frozen;
}

/* The value that need k of a tile's way is. */
static inline size_t clprune__net_needed(
    const clprune__net_graph *graph, const clprune__net_tile *tile, size_t k)
{
    const clprune__net_need *need = &tile->way->needs[k];
    const size_t layer = tile->layers[need->layer];
    return need->in < 0 ? layer : graph->layers[layer].in[need->in];
}

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
