/* What a settled net has beside its plan: memory on the device, and how far its passes have come.
 */
#ifndef CLPRUNE_NET_STATE_H
#define CLPRUNE_NET_STATE_H

#include "clprune/conv2d.h"
#include "clprune/linear.h"
#include "clprune/saved.h"
#include "net/plan/plan.h"
#include "runtime/context/context_private.h"

/* What a layer has on the device, beside its parameters. */
struct clprune__net_unit {
    union {
        clprune_linear *linear;
        clprune_conv2d *conv;
    } op;
    clprune_mat state[4];  /* batch norm: running mean and variance, mean, inv; a stem's
                              convolution: products */
    bool lent[2];          /* running mean, variance: the caller's (clprune_net_use_value) */
    clprune_saved *mask;   /* ReLU's signs, if its way keeps them */
    clprune_mat history;   /* (batch * whole) rows of earlier passes, with desc.rows_at_once */
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
    cl_mem *values;             /* (values_count) the net's own buffers of values */
    size_t values_count;
    clprune_param *list; /* (list_count) what clprune_net_params returns */
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

/* How far passes have come, which is what the output slot has. */
typedef enum clprune__net_phase {
    CLPRUNE__NET_EMPTY,
    CLPRUNE__NET_INFERRED, /* the output of a forward pass */
    CLPRUNE__NET_TRAINED,  /* the same, in training */
    CLPRUNE__NET_HAS_LOSS  /* then the loss was computed, by a token loss in its place */
} clprune__net_phase;

/* How far passes have come, and who is told of them. */
typedef struct clprune__net_progress {
    clprune__net_phase phase;
    clprune_net_data data; /* of the forward pass, and of the loss; `more` is the next */
    clprune_net_input more[CLPRUNE__NET_MOST_INPUTS];
    bool has_values;      /* each parameter has been written, as far as is known */
    bool seeded;          /* `seed` is new: the next forward pass draws it */
    uint64_t seed;        /* else what that draws follows from it */
    size_t rows, samples; /* with desc.rows_at_once: rows of so many samples that passes have made,
                             and layers have kept what later ones need of them; the keeper's */
    uint64_t drawn; /* by the last one in training, whose backward pass draws the same again */
    clprune_status (*on_grads)(void *user, clprune_mat grads);
    void *on_grads_user;
    clprune_net_statistics statistics;
    void (*tell)(void *user, bool backward, const char *layer);
    void *tell_user;
    bool checks_finite;
} clprune__net_progress;

#endif
