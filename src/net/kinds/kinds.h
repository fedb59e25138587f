/* Kinds of layers that other files name, and the list of all ways. A new kind is one file
 * net_NAME.c, and a line of the list. */
#ifndef CLPRUNE_NET_KINDS_H
#define CLPRUNE_NET_KINDS_H

#include <string.h>

#include "net/build/graph.h"
#include "net/run/state.h"
#include "runtime/context/check.h"

extern const clprune__net_kind clprune__net_pixels_kind, clprune__net_linear_kind,
    clprune__net_linear_rows_kind, clprune__net_affine_kind, clprune__net_layerscale_kind,
    clprune__net_gelu_kind, clprune__net_relu_kind, clprune__net_batch_norm_kind,
    clprune__net_conv_kind, clprune__net_max_pool_kind, clprune__net_mean_kind,
    clprune__net_add_kind, clprune__net_flatten_kind, clprune__net_adapter_kind;

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

/* by_row of kinds whose rows never meet. */
static inline bool clprune__net_by_row(
    const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    (void)graph;
    (void)layer;
    return true;
}

/* takes_bf16 of kinds that read what they add, their second input, in bf16. */
static inline bool clprune__net_adds_bf16(
    const clprune__net_graph *graph, const clprune__net_layer *layer, size_t k)
{
    (void)graph;
    (void)layer;
    return k == 1;
}

/* Adds a norm of x with ".weight" of ones and, if `shifted`, ".bias" of zeros, and the draft's eps;
 * NULL after an error. */
clprune__net_layer *clprune__net_add_norm(clprune_net *net, const clprune__net_kind *kind,
    const char *name, clprune_net_value x, bool shifted);

/* layer->table: ints and floats in a row, which kernels read; a settled net has a copy on the
 * device.
 */
enum { CLPRUNE__NET_TABLE = 2 /* the unit's state that has it */ };

static inline void clprune__net_put_int(float *word, size_t value)
{
    const int32_t bits = (int32_t)value;
    memcpy(word, &bits, sizeof bits);
}

/* `create` of a kind: writes `words` of them, if the layer has any. */
static inline clprune_status clprune__net_create_table(const clprune__net_graph *graph,
    const clprune__net_layer *layer, size_t words, clprune__net_unit *unit)
{
    if (layer->table == NULL)
        return CLPRUNE_SUCCESS;
    clprune_mat *mat = &unit->state[CLPRUNE__NET_TABLE];
    TRY(clprune_mat_create(graph->context, CLPRUNE_MEMORY_PARAMETERS, layer->name, 1, words, mat));
    return clprune_mat_write(graph->context, *mat, layer->table);
}

/* The ways of each file, in the order in which they are tried; a way without a name ends a list. */
#define CLPRUNE__NET_WAYS(WAYS)                                                                    \
    WAYS(identities)                                                                               \
    WAYS(stem_ways)                                                                                \
    WAYS(input_ways)                                                                               \
    WAYS(linear_ways)                                                                              \
    WAYS(affine_ways)                                                                              \
    WAYS(layerscale_ways)                                                                          \
    WAYS(activation_ways)                                                                          \
    WAYS(pool_ways)                                                                                \
    WAYS(batch_norm_ways)                                                                          \
    WAYS(conv_ways)                                                                                \
    WAYS(conv_transpose_ways)                                                                      \
    WAYS(add_ways)                                                                                 \
    WAYS(element_ways)                                                                             \
    WAYS(gate_ways)                                                                                \
    WAYS(concat_ways)                                                                              \
    WAYS(gather_ways)                                                                              \
    WAYS(resample_ways)                                                                            \
    WAYS(layer_norm_ways)                                                                          \
    WAYS(head_norm_ways)                                                                           \
    WAYS(group_norm_ways)                                                                          \
    WAYS(response_ways)                                                                            \
    WAYS(attention_ways)                                                                           \
    WAYS(cross_attention_ways)                                                                     \
    WAYS(products_ways)                                                                            \
    WAYS(softmax_ways)                                                                             \
    WAYS(recurrent_ways)                                                                           \
    WAYS(token_ways)                                                                               \
    WAYS(rotary_ways)                                                                              \
    WAYS(lora_ways)

#define CLPRUNE__DECLARE_WAYS(name) extern const clprune__net_way clprune__net_##name[];
CLPRUNE__NET_WAYS(CLPRUNE__DECLARE_WAYS)

#endif
