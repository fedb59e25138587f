/* What the files of this room share: values, layers, ways, and the steps of a pass.
 *
 *     layers on values      built by the functions of kind_*.c, one kind of layer a file
 *     tiles                 each a way: how one layer, or a chain of them, runs backward, and what
 *                           that needs of their values
 *     choices               which values are kept, and in which form
 *     steps                 both passes as a list, made from tiles and choices (steps.c)
 *     memory                stores of the kept values, slots for the others
 *
 * A value is used in a pass from its store, if that is dense, or from a slot: a workspace matrix
 * that values share one after the other. */
#ifndef CLPRUNE_NET_PRIVATE_H
#define CLPRUNE_NET_PRIVATE_H

#include <stdbool.h>

#include "clprune/activation.h"
#include "clprune/attention.h"
#include "clprune/batch_norm.h"
#include "clprune/conv2d.h"
#include "clprune/net.h"
#include "clprune/patch_embed.h"
#include "runtime/context/context_private.h"

enum {
    CLPRUNE__NET_INPUTS = 2, /* of a layer, at most */
    CLPRUNE__NET_PARAMS = 3, /* of a layer, at most */
    CLPRUNE__NET_CHAIN = 3,  /* layers of a way, at most */
    CLPRUNE__NET_ENDS = 4,   /* inputs of a tile, at most */
    CLPRUNE__NET_NEEDS = 4,  /* of a way, at most */
    CLPRUNE__NET_TEMPS = 4,
    CLPRUNE__NET_TEXT = 512 /* bytes of an error */
};

typedef struct clprune__net_kind clprune__net_kind;
typedef struct clprune__net_way clprune__net_way;
typedef struct clprune__net_call clprune__net_call;
typedef struct clprune__net_graph clprune__net_graph;
typedef struct clprune__net_plan clprune__net_plan;
typedef struct clprune__net_unit clprune__net_unit;

typedef struct clprune__net_shape {
    size_t rows, cols;
    clprune_extent grid; /* of images; {0, 0}: none */
} clprune__net_shape;

typedef struct clprune__net_value {
    clprune__net_shape shape;
    size_t users;     /* how many inputs of layers it is */
    size_t last_user; /* the last of these layers; 0: none */
    bool trained;     /* it has a gradient: a parameter comes before it */
} clprune__net_value;

/* Rotary positions: the heads that are turned, their columns. */
typedef struct clprune__net_rotary {
    size_t heads, head_cols;
    float theta;
} clprune__net_rotary;

typedef struct clprune__net_layer {
    const clprune__net_kind *kind;
    char *name;
    size_t in[CLPRUNE__NET_INPUTS], ins; /* values; the output is the value of the same number */
    size_t param[CLPRUNE__NET_PARAMS], params;
    bool gone;        /* merged into another layer */
    bool frozen;      /* it has parameters, and all are frozen */
    bool adapter;     /* one of the two products of an adapter */
    const char *norm; /* batch norm: the name of its states */
    float eps;        /* of a normalisation */
    float momentum;   /* batch norm */
    union {
        clprune_net_conv conv;
        clprune_max_pool_desc pool;
        clprune_patch_embed_desc patches;
        clprune_attention_desc attention;
        size_t sizes[2];               /* linear: inputs, outputs */
        bool relu;                     /* batch norm: followed by ReLU */
        clprune_activation activation; /* gelu and those that run as it */
        clprune__net_rotary rotary;
        float factor; /* scale; dropout: its rate */
    } set;
} clprune__net_layer;

/* Where a matrix is. */
typedef struct clprune__net_place {
    enum { CLPRUNE__NET_NOWHERE, CLPRUNE__NET_SLOT, CLPRUNE__NET_STORE } at;
    size_t id;  /* of the slot or the value */
    bool whole; /* a slot with all samples of the batch; else with those of a chunk */
    bool bf16;  /* a slot whose elements are bf16 */
} clprune__net_place;

/* What a value has: floats, or what the caller's data has, which few kinds of layers read. */
typedef enum clprune__net_content {
    CLPRUNE__NET_FLOATS = 0,
    CLPRUNE__NET_BYTES, /* of images */
    CLPRUNE__NET_TOKENS
} clprune__net_content;

/* What a slot holds: `rows` x `cols` a sample, or in all. */
typedef struct clprune__net_size {
    size_t rows, cols;
    bool in_all;
    enum {
        CLPRUNE__NET_OF_CALL,    /* of a temporary: the backward call */
        CLPRUNE__NET_OF_REGION,  /* from begin to end */
        CLPRUNE__NET_OF_FORWARD, /* the forward call of a fused way */
        CLPRUNE__NET_OF_TRAINING /* the same, but not in inference, nor if it is made again */
    } life;
    bool spare; /* of a temporary: not needed where the first need is dense and read last */
} clprune__net_size;

/* ---- kinds and ways ----------------------------------------------------------------------------
 */

/* Of ReLU: of what it reads. */
typedef enum clprune__net_signs {
    CLPRUNE__NET_NO_SIGNS,
    CLPRUNE__NET_SIGNS_OF_NORM,
    CLPRUNE__NET_SIGNS_OF_SUM /* of a residual path, or of any other value */
} clprune__net_signs;

struct clprune__net_kind {
    const char *name;
    clprune__net_content gives, reads; /* of y, which no pass makes unless it has floats; of x */
    const clprune__net_kind *as;       /* runs in the ways of this kind; NULL: in its own */
    bool whole;                        /* a pass needs all samples of the batch at once */
    bool stores;       /* its forward pass stores its input, faster than a pass of its own */
    bool over;         /* y may take the place of the first input */
    bool stream;       /* y is the sum of a residual path */
    bool inert;        /* it prepares data: nothing runs backward */
    bool can_freeze;   /* it has ways of its own for parameters that are all frozen */
    bool joint_grads;  /* gradients of its parameters come with dx, also of frozen ones */
    bool adds_grads;   /* it adds to the gradient of its parameter */
    bool statistics;   /* it has a running mean and variance, which are states of the net */
    clprune_form mask; /* what it keeps in ways with keeps_mask: GELU_CODE, or else signs */
    unsigned codes;    /* bit k: made again, it also reads input k QUANTISED in its store */
    bool (*gives_bf16)(
        const clprune__net_graph *graph); /* its forward pass writes y in bf16; NULL: never */
    /* Whether its forward pass reads input k in bf16; NULL: none. */
    bool (*takes_bf16)(const clprune__net_graph *graph, const clprune__net_layer *layer, size_t k);
    /* The signs that its backward pass reads; NULL: none. */
    clprune__net_signs (*signs)(const clprune__net_layer *layer);
    /* The matrix that the forward pass of so many samples writes beside y, for the backward pass;
     * NULL: none. */
    clprune_status (*positions)(
        size_t samples, const clprune__net_shape *shape, clprune_max_pool_sizes *sizes);
    /* Multiplications per sample of a forward pass that is a product; NULL: none. */
    double (*work)(const clprune__net_graph *graph, const clprune__net_layer *layer);
    /* The object of a layer; both may be NULL. */
    clprune_status (*create)(
        const clprune__net_graph *graph, const clprune__net_layer *layer, clprune__net_unit *unit);
    void (*destroy)(clprune__net_unit *unit);
    /* y of the samples of the call, from call->in. */
    clprune_status (*forward)(const clprune__net_call *call);
};

/* What a way reads: a value of its layers, and how. */
typedef enum clprune__net_how {
    CLPRUNE__NET_DENSE,   /* as a matrix */
    CLPRUNE__NET_NARROW,  /* as a matrix, or one of bf16 in its store */
    CLPRUNE__NET_CODES,   /* as a matrix, or QUANTISED in its store */
    CLPRUNE__NET_PRODUCT, /* in a product with a gradient: any form */
    CLPRUNE__NET_SIGN     /* as a matrix, without error */
} clprune__net_how;

typedef struct clprune__net_need {
    unsigned layer; /* of the chain */
    int in;         /* its input, or -1: its output */
    clprune__net_how how;
    bool params;   /* only for gradients of parameters */
    unsigned bits; /* of codes, at least: for what goes through an exponential, 8; 0: any */
} clprune__net_need;

/* How the gradient of an input is written. */
typedef enum clprune__net_flow {
    CLPRUNE__NET_APART = 0, /* to a matrix of its own; with `adds` to what is there */
    CLPRUNE__NET_OVER,      /* the same, or over dy */
    CLPRUNE__NET_PASS,      /* it is dy */
    CLPRUNE__NET_INTO,      /* the way turns dy into it, in place */
    CLPRUNE__NET_NONE       /* another end has its part */
} clprune__net_flow;

struct clprune__net_way {
    const char *name;
    const clprune__net_kind
        *chain[CLPRUNE__NET_CHAIN]; /* each one's output goes to the next alone */
    unsigned level;                 /* 0: as autograd does; 1: layers fused; 2: by an identity */
    bool frozen;                    /* for layers whose parameters are all frozen */
    clprune__net_need needs[CLPRUNE__NET_NEEDS];
    unsigned needs_count;
    struct {
        clprune__net_flow flow;
        bool adds;             /* dx_beta */
    } ends[CLPRUNE__NET_ENDS]; /* the inputs of the chain from outside, layer by layer */
    bool keeps_mask;           /* the first layer keeps signs, GELU codes of its derivative */
    unsigned sums;             /* k + 1: the way can sum the gradient of input k of its first layer,
                                  for the bias of the layer that made it ... */
    const clprune__net_kind *sums_for[2]; /* ... if it is of such a kind */
    bool fused; /* forward: the last layer's forward does the whole chain */
    bool (*fits)(const clprune__net_graph *graph, const size_t *layers); /* NULL: always */
    clprune__net_size (*temp)(const clprune__net_plan *plan, const size_t *layers, size_t index);
    clprune_status (*create)(clprune_net *net, const size_t *layers); /* states; NULL: none */
    clprune_status (*forward)(const clprune__net_call *call);         /* of a fused chain */
    clprune_status (*begin)(const clprune__net_call *call);           /* before the first samples */
    clprune_status (*backward)(const clprune__net_call *call);
    clprune_status (*end)(const clprune__net_call *call); /* after the last samples */
};

/* All ways, in lists that a way without a name ends; NULL ends them. layers/kinds.c */
extern const clprune__net_way *const clprune__net_ways[];

/* ---- steps -------------------------------------------------------------------------------------
 */

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

typedef struct clprune__net_param {
    char *name;
    size_t layer;
    size_t rank, shape[4]; /* in files of other programs */
    size_t inputs;         /* of a weight or bias: for initial values; 0: `value` */
    float value;
    bool decay;
    clprune_extent image; /* clprune_net_weight */
    bool frozen;
    size_t tied; /* 1 + the parameter that it is; 0: none */
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
    CLPRUNE__NET_SQUARED_ERROR,
    CLPRUNE__NET_CUSTOM_LOSS
} clprune__net_loss;

/* How far passes have come, which is what the output slot has. */
typedef enum clprune__net_phase {
    CLPRUNE__NET_EMPTY,
    CLPRUNE__NET_INFERRED, /* the output of a forward pass */
    CLPRUNE__NET_TRAINED,  /* the same, in training */
    CLPRUNE__NET_HAS_LOSS  /* then the loss was computed, by a token loss in its place */
} clprune__net_phase;

/* What clprune_net_lora asked for. */
typedef struct clprune__net_lora {
    char *pattern; /* NULL: nothing */
    bool used;     /* a layer has matched */
    size_t rank;
    float factor; /* alpha / rank */
} clprune__net_lora;

/* What a net computes. Layers, values and parameters are written through the draft alone. */
struct clprune__net_graph {
    clprune_context *context;
    clprune_net_desc desc;
    const clprune__net_layer *layers;
    const clprune__net_value *values; /* value i is the output of layer i; 0 is the input */
    size_t count;                     /* of both */
    const clprune__net_param *params;
    size_t params_count;
    size_t output; /* the last layer */
    clprune__net_loss loss;
    size_t head;     /* 1 + the parameter of a token loss, which no layer has; 0: none */
    char *head_name; /* of the token loss */
};

/* The same, while layers are added and merged; and what the next layers get. */
typedef struct clprune__net_draft {
    clprune__net_layer *layers;
    clprune__net_value *values;
    clprune__net_param *params;
    char *part;
    clprune__net_lora lora;
    float eps, momentum; /* of normalisations */
} clprune__net_draft;

/* ---- plan --------------------------------------------------------------------------------------
 */

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

/* ---- memory ------------------------------------------------------------------------------------
 */

/* What a layer has on the device, beside its parameters. */
struct clprune__net_unit {
    union {
        clprune_linear *linear;
        clprune_conv2d *conv;
    } op;
    clprune_mat state[4];  /* batch norm: running mean and variance, mean, inv; a stem's
                              convolution: products */
    clprune_saved *mask;   /* ReLU's signs, if its way keeps them */
    clprune_mat positions; /* of the max pool; made again with its output, if made_again */
    size_t rows;           /* batch norm: of the statistics of the pass, all nets' */
};

/* A slot's memory. */
typedef struct clprune__net_space {
    cl_mem buffer;
    clprune_saved *view; /* the buffer as a dense store; ... */
    clprune_saved *bf16; /* ... or one of bf16; NULL unless products read it */
} clprune__net_space;

typedef struct clprune__net_body {
    clprune__net_unit *units;   /* (graph.count) of the layers */
    clprune_saved **stores;     /* (graph.count) of values that are kept */
    clprune__net_space *spaces; /* (plan.slots_count) */
    clprune_param *tensors;     /* (params_count) values, and gradients of a pass */
    clprune_mat all;            /* all values as a row */
    clprune_param *list;        /* (list_count) what clprune_net_params returns */
    size_t list_count;
    clprune_mat *dropped; /* (regions_count) gradients of a region, if desc.drops_grads */
    clprune_mat grads,
        pass;           /* all gradients of `list` as a row, and those of a pass, if desc.adds */
    clprune_mat unread; /* gradients of frozen parameters */
    clprune_net_state *states; /* likewise */
    size_t states_count;
    clprune_mat ranges; /* of labels, then tokens: what int_range.h records; an element apart */
    clprune__watch watch;
    clprune_mat log_p, row_weight; /* of a cross-entropy: clprune/token_loss.h */
    uint64_t kept_bytes;           /* booked under activations */
} clprune__net_body;

/* How far passes have come, and who is told of them. */
typedef struct clprune__net_progress {
    clprune__net_phase phase;
    clprune_net_data data; /* of the forward pass, and of the loss */
    bool has_values;       /* each parameter has been written, as far as is known */
    bool seeded;           /* `seed` is new: the next forward pass draws it */
    uint64_t seed;         /* else what that draws follows from it */
    uint64_t drawn; /* by the last one in training, whose backward pass draws the same again */
    clprune_status (*on_grads)(void *user, clprune_mat grads);
    void *on_grads_user;
    clprune_net_statistics statistics;
    void (*tell)(void *user, bool backward, const char *layer);
    void *tell_user;
    bool checks_finite;
} clprune__net_progress;

struct clprune_net {
    clprune_context *context;
    uint32_t serial;
    clprune_status status; /* the first error */
    char *error;
    bool settled;
    size_t sharers; /* nets whose desc.weights_of this is */
    bool gone;      /* destroyed, but for what sharers need */
    clprune__net_draft draft;
    clprune__net_graph graph;
    clprune__net_plan plan;
    clprune__net_body body;
    clprune__net_progress at;
};

/* One call of a layer's or way's function. */
struct clprune__net_call {
    clprune_net *net;
    const clprune_net_data *data;
    const clprune__net_step *step;
    const clprune__net_layer *layer;   /* forward */
    const clprune__net_tile *tile;     /* backward */
    const clprune__net_region *region; /* that runs */
    size_t first, count;               /* samples */
    bool training;
};

#endif
