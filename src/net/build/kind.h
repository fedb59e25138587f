/* What a kind of layer is: a row of properties and functions; and its ways backward. The planner
 * and the passes read these rows, and know no kind. The kinds are in net/kinds. */
#ifndef CLPRUNE_NET_KIND_H
#define CLPRUNE_NET_KIND_H

#include <stdbool.h>

#include "clprune/max_pool.h"
#include "clprune/net.h"

enum {
    CLPRUNE__NET_INPUTS = 2,       /* of a layer, at most */
    CLPRUNE__NET_MOST_INPUTS = 16, /* of a net */
    CLPRUNE__NET_PARAMS = 3,       /* of a layer, at most */
    CLPRUNE__NET_CHAIN = 3,        /* layers of a way, at most */
    CLPRUNE__NET_ENDS = 4,         /* inputs of a tile, at most */
    CLPRUNE__NET_NEEDS = 4,        /* of a way, at most */
    CLPRUNE__NET_TEMPS = 4         /* of a way, at most */
};

typedef struct clprune__net_kind clprune__net_kind;
typedef struct clprune__net_way clprune__net_way;
typedef struct clprune__net_call clprune__net_call;
typedef struct clprune__net_graph clprune__net_graph;
typedef struct clprune__net_plan clprune__net_plan;
typedef struct clprune__net_unit clprune__net_unit;
typedef struct clprune__net_layer clprune__net_layer;
typedef struct clprune__net_shape clprune__net_shape;

/* What a value has: floats, or what the caller's data has, which few kinds of layers read. */
typedef enum clprune__net_content {
    CLPRUNE__NET_FLOATS = 0,
    CLPRUNE__NET_BYTES, /* of images */
    CLPRUNE__NET_TOKENS
} clprune__net_content;

/* What a temporary of a way holds: `rows` x `cols` a sample, or in all. */
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
    bool stores;            /* its forward pass stores its input, faster than a pass of its own */
    bool over, over_second; /* y may take the place of the first or second input */
    bool stream;            /* y is the sum of a residual path */
    struct {
        bool none;   /* it prepares data: nothing runs backward */
        bool joint;  /* those of its parameters come with dx, also of frozen ones */
        bool adds;   /* it adds to that of its parameter */
        bool frozen; /* it has ways of its own for parameters that are all frozen */
    } grads;
    clprune_form mask; /* what it keeps in ways with keeps_mask: GELU_CODE, or else signs */
    unsigned codes;    /* bit k: made again, it also reads input k QUANTISED in its store */
    bool coded;        /* its passes read its first parameter, frozen, as bf16 or codes */
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
    /* Whether row i of y follows from row i of its inputs, data->first and what it keeps of earlier
     * rows: what desc.rows_at_once needs; NULL: it does not. */
    bool (*by_row)(const clprune__net_graph *graph, const clprune__net_layer *layer);
    /* Columns that its forward pass keeps of each row for later passes then; NULL: none. */
    size_t (*history)(const clprune__net_layer *layer);
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
    bool narrow_dx;                       /* it can write the gradient of its first end in bf16 */
    /* Whether dy may be of bf16, to which its products would round it, if what it needs of its
     * layer's input is kept like that; NULL: no. */
    bool (*narrow_dy)(
        const clprune__net_graph *graph, const clprune__net_layer *layer, const clprune_keep *x);
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

#endif
