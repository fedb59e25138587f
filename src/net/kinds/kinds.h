/* All kinds of layers, and the list of all ways. A new kind is one file net_NAME.c, and a line in
 * each of the two lists. */
#ifndef CLPRUNE_NET_KINDS_H
#define CLPRUNE_NET_KINDS_H

#include "net/build/graph.h"

extern const clprune__net_kind clprune__net_pixels_kind, clprune__net_patches_kind,
    clprune__net_linear_kind, clprune__net_linear_rows_kind, clprune__net_affine_kind,
    clprune__net_layerscale_kind, clprune__net_gelu_kind, clprune__net_relu_kind,
    clprune__net_batch_norm_kind, clprune__net_conv_kind, clprune__net_max_pool_kind,
    clprune__net_mean_kind, clprune__net_add_kind, clprune__net_layer_norm_kind,
    clprune__net_flatten_kind, clprune__net_embedding_kind, clprune__net_attention_kind,
    clprune__net_adapter_kind;

/* gives_bf16 and takes_bf16 of kinds that write, and read all inputs, in bf16. */
static inline bool clprune__net_gives_bf16(const clprune__net_graph *graph)
{
    (void)graph;
    return true;
}
static inline bool clprune__net_takes_bf16(
    const clprune__net_graph *graph, const clprune__net_layer *layer, size_t k)
{
    (void)graph;
    (void)layer;
    (void)k;
    return true;
}

/* The same of kinds that read what they add, their second input, in bf16. */
static inline bool clprune__net_adds_bf16(
    const clprune__net_graph *graph, const clprune__net_layer *layer, size_t k)
{
    (void)graph;
    (void)layer;
    return k == 1;
}

/* The ways of a file; a way of length 0 ends them. */
extern const clprune__net_way clprune__net_identities[], clprune__net_input_ways[],
    clprune__net_linear_ways[], clprune__net_stem_ways[], clprune__net_affine_ways[],
    clprune__net_layerscale_ways[], clprune__net_activation_ways[], clprune__net_batch_norm_ways[],
    clprune__net_conv_ways[], clprune__net_pool_ways[], clprune__net_add_ways[],
    clprune__net_element_ways[], clprune__net_layer_norm_ways[], clprune__net_token_ways[],
    clprune__net_attention_ways[], clprune__net_lora_ways[];

#endif
