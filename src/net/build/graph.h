/* What a net computes: layers, values and parameters. Everyone reads them; they are written while
 * the caller adds layers and while layers are merged (append.h). */
#ifndef CLPRUNE_NET_GRAPH_H
#define CLPRUNE_NET_GRAPH_H

#include "clprune/activation.h"
#include "clprune/attention.h"
#include "clprune/conv2d.h"
#include "clprune/element_loss.h"
#include "clprune/patch_embed.h"
#include "clprune/permute.h"
#include "net/build/kind.h"

struct clprune__net_shape {
    size_t rows, cols;
    clprune_extent grid; /* of images; {0, 0}: none */
};

typedef struct clprune__net_value {
    clprune__net_shape shape;
    size_t users;     /* how many inputs of layers it is */
    size_t last_user; /* the last of these layers; 0: none */
    bool trained;     /* it has a gradient: a parameter comes before it */
} clprune__net_value;

/* A part of a value, or of its axis. */
typedef struct clprune__net_part {
    clprune_axis axis;
    size_t first;
} clprune__net_part;

/* Attention: of a window; windows of a sample; what is added to scores is in the layer's table: a
 * mask from word `masks` on; biases: 0: nothing is. */
typedef struct clprune__net_attention {
    clprune_attention_desc desc;
    size_t windows, biases, words, masks; /* masks == words: no mask */
} clprune__net_attention;

/* Rotary positions: the heads, their columns, and how many of these are turned: by theta, or by
 * what the layer's table has: `words` words, either of frequencies or of cosines and sines. */
typedef struct clprune__net_rotary {
    size_t heads, head_cols, turned;
    float theta, factor;
    bool adjacent, by_row;
    size_t words; /* 0: by theta */
} clprune__net_rotary;

/* Norms of heads: the column of the first one, how many there are, and their columns. */
typedef struct clprune__net_heads {
    size_t first, heads, cols;
} clprune__net_heads;

struct clprune__net_layer {
    const clprune__net_kind *kind;
    char *name;
    size_t in[CLPRUNE__NET_INPUTS], ins; /* values; the output is the value of the same number */
    size_t param[CLPRUNE__NET_PARAMS], params;
    bool gone;        /* merged into another layer */
    bool frozen;      /* it has parameters, and all are frozen */
    bool adapter;     /* one of the two products of an adapter */
    bool wanted;      /* an input whose gradient is wanted */
    const char *norm; /* batch norm: the name of its states */
    float *table;     /* resample: its matrices; gather: its lists; attention: index and masks;
                         rotary: angles; owned */
    float eps;        /* of a normalisation */
    float momentum;   /* batch norm */
    union {
        clprune_net_conv conv;
        clprune_max_pool_desc pool;
        clprune_patch_embed_desc patches;
        clprune__net_attention attention;
        size_t sizes[2];               /* linear: inputs, outputs; upsample: one number */
        bool relu;                     /* batch norm: followed by ReLU */
        clprune_activation activation; /* gelu and those that run as it */
        clprune__net_rotary rotary;
        clprune__net_heads heads;
        clprune__net_part part; /* concat, slice */
        clprune_net_products products;
        clprune_permute_desc permute;
        clprune_recurrent_desc recurrent;
        struct {
            size_t at[4], words; /* of `table` */
        } table;
        size_t input; /* its number among the inputs */
        float factor; /* scale; dropout: its rate */
    } set;
};

typedef struct clprune__net_param {
    char *name;
    size_t layer;
    size_t rank, shape[4]; /* in files of other programs */
    size_t inputs;         /* of a weight or bias: for initial values; 0: `value` */
    float value;
    bool decay;
    clprune_extent image; /* clprune_net_weight */
    bool frozen;
    size_t tied;               /* 1 + the parameter that it is; 0: none */
    clprune_value_type stored; /* if it is frozen: BF16 or codes; not of a tied one */
} clprune__net_param;

static inline size_t clprune__net_param_elements(const clprune__net_param *param)
{
    size_t elements = 1;
    for (size_t i = 0; i < param->rank; ++i)
        elements *= param->shape[i];
    return elements;
}

typedef enum clprune__net_loss {
    CLPRUNE__NET_NO_LOSS,
    CLPRUNE__NET_CROSS_ENTROPY,
    CLPRUNE__NET_TOKEN_LOSS,
    CLPRUNE__NET_ELEMENT_LOSS,
    CLPRUNE__NET_CUSTOM_LOSS
} clprune__net_loss;

/* What a net computes. Layers, values and parameters are written through the draft alone. */
struct clprune__net_graph {
    clprune_context *context;
    clprune_net_desc desc;
    const clprune__net_layer *layers;
    const clprune__net_value *values; /* value i is the output of layer i; 0 is an input */
    size_t count;                     /* of both */
    size_t inputs[CLPRUNE__NET_MOST_INPUTS], inputs_count; /* the values that they are */
    const clprune__net_param *params;
    size_t params_count;
    size_t output; /* the last layer */
    size_t whole;  /* with desc.rows_at_once: rows of a sample in all; 0: each pass has all */
    clprune__net_loss loss;
    size_t head;      /* 1 + the parameter of a token loss, which no layer has; 0: none */
    size_t head_bias; /* 1 + that of its logits; 0: none */
    char *head_name;  /* of the token loss */
    float cap;        /* of its logits; 0: none */
    clprune_element_loss element; /* the element loss */
};

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

/* The input that a layer reads. */
static inline size_t clprune__net_input_of(
    const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    return graph->layers[layer->in[0]].set.input;
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

/* Value number of a layer's output. */
static inline size_t clprune__net_out(
    const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    return (size_t)(layer - graph->layers);
}

bool clprune__net_same_shape(const clprune__net_param *a, const clprune__net_param *b);

/* "10 x 32", in `text`. */
const char *clprune__net_shape_text(const clprune__net_param *param, char text[128]);

#endif
