/*
 * state_slices.h: an optimizer whose state is divided among the ranks of a run (ZeRO-1, arXiv
 * 1910.02054). Each rank has the moments of its slices of the gradients' ranges, updates their
 * parameters, and receives the others'.
 */
#ifndef TRAINER_STATE_SLICES_H
#define TRAINER_STATE_SLICES_H

#include "trainer/session/gradient_windows.h"

/* A piece of a parameter that lies in a rank's slices. */
typedef struct state_piece {
    size_t param, first; /* elements of the parameter from first on */
} state_piece;

typedef struct state_slices {
    clprune_context *context;    /* NULL: not open */
    gradient_windows *windows;   /* not owned */
    const clprune_param *params; /* (params_count) not owned: the model's */
    size_t params_count;
    clprune_param *own;  /* (count) this rank's pieces, as parameters of an optimizer */
    state_piece *pieces; /* (count) */
    size_t count;
    clprune_mat norm; /* 1 x 1, of own gradients */
} state_slices;

/* The pieces of a rank. The caller closes *s in any case. */
clprune_status state_slices_open(clprune_context *context, gradient_windows *windows,
    const clprune_param *params, size_t count, state_slices *s);
void state_slices_close(state_slices *s); /* accepts {0} */

/* Scales the gradients of own pieces, whose optimizer this is, as clprune_optimizer_clip does those
 * of a whole model. *all: the norm of that. Waits for the other ranks, if there are some. */
bool state_slices_clip(
    const state_slices *s, clprune_optimizer *optimizer, float max_norm, double *all, fault *f);

/* After the optimizer's step: gives the others this rank's parameters, and takes theirs. The
 * gradients are used up. Waits for the other ranks, if there are some. */
bool state_slices_share(const state_slices *s, fault *f);

/* A moment of a whole parameter, `slot` of the optimizer: reads it on all ranks, from all of them;
 * or takes this rank's part of it. host: as many floats as the parameter has. */
bool state_slices_read(const state_slices *s, const clprune_optimizer *optimizer, size_t param,
    size_t slot, float *host, fault *f);
bool state_slices_write(const state_slices *s, const clprune_optimizer *optimizer, size_t param,
    size_t slot, const float *host, fault *f);

#endif
