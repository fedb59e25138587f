/* Building a graph: what the functions of kind_*.c add layers with. */
#ifndef CLPRUNE_NET_GRAPH_H
#define CLPRUNE_NET_GRAPH_H

#include "net/net_private.h"

/* Keeps the first error of a net that is being built. */
void clprune__net_wrong(clprune_net *net, clprune_status status, const char *format, ...)
    __attribute__((__format__(__printf__, 3, 4)));

/* The layer and value of a handle; NULL after an error, or for a handle of another net. `name` is
 * the layer that reads it. */
const clprune__net_value *clprune__net_read(
    clprune_net *net, const char *name, clprune_net_value value);

/* Adds a layer with one or two inputs, which clprune__net_read has accepted. NULL after an error.
 * It is valid until the next call. */
clprune__net_layer *clprune__net_add(clprune_net *net, const clprune__net_kind *kind,
    const char *name, const clprune_net_value *in, size_t ins, clprune__net_shape shape);

/* The handle of the last layer. */
clprune_net_value clprune__net_last(const clprune_net *net);

/* Adds a parameter of the last layer, called the layer's name + suffix. */
void clprune__net_add_param(clprune_net *net, const char *suffix, clprune__net_param param);

/* The same of no layer: of a loss that reads the output of layer `layer`. `name` comes after the
 * name of the part. Returns its number, or SIZE_MAX after an error. */
size_t clprune__net_add_head(
    clprune_net *net, const char *name, size_t layer, clprune__net_param param);

/* The maker of a layer's input k. */
static inline const clprune__net_layer *clprune__net_before(
    const clprune__net_graph *graph, const clprune__net_layer *layer, size_t k)
{
    return &graph->layers[layer->in[k]];
}

static inline const clprune__net_shape *clprune__net_in_shape(
    const clprune__net_graph *graph, const clprune__net_layer *layer, size_t k)
{
    return &graph->values[layer->in[k]].shape;
}

/* Whether a kind runs in the ways of another. */
static inline bool clprune__net_acts_as(
    const clprune__net_kind *kind, const clprune__net_kind *other)
{
    return kind == other || kind->as == other;
}

/* Whether a value has one user, and a maker that runs as this kind. */
static inline bool clprune__net_is_lone(
    const clprune__net_graph *graph, size_t value, const clprune__net_kind *kind)
{
    return clprune__net_acts_as(graph->layers[value].kind, kind) &&
           graph->values[value].users == 1 && value != graph->output;
}

/* Whether a layer stands for data of a step, which passes read where it is. */
static inline bool clprune__net_is_data(const clprune__net_layer *layer)
{
    return layer->kind->gives != CLPRUNE__NET_FLOATS;
}

/* Whether the net has no backward pass. */
static inline bool clprune__net_infers(const clprune__net_graph *graph)
{
    return graph->desc.infers || graph->loss == CLPRUNE__NET_NO_LOSS;
}

/* Whether clprune_net_settle has succeeded: `settled` is set before, against a second call. */
static inline bool clprune__net_is_settled(const clprune_net *net)
{
    return net->settled && net->status == CLPRUNE_SUCCESS;
}

/* splitmix64 */
static inline uint64_t clprune__net_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

bool clprune__net_same_shape(const clprune__net_param *a, const clprune__net_param *b);

/* "10 x 32", in `text`. */
const char *clprune__net_shape_text(const clprune__net_param *param, char text[128]);

/* Fails unless a layer has matched what clprune_net_lora asked for. */
void clprune__net_end_lora(clprune_net *net);

/* Whether a layer is one of a region. */
static inline bool clprune__net_is_in(const clprune__net_region *region, size_t layer)
{
    return layer >= region->first && layer <= region->last;
}

/* Value number of a layer's output. */
static inline size_t clprune__net_out(
    const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    return (size_t)(layer - graph->layers);
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

#endif
