/*
 * gradient_windows.h: the gradients of a step, added over the ranks of a run while the backward
 * pass goes on.
 *
 * The model tells of parts of the gradients as soon as they are complete. Parts that lie one behind
 * the other make ranges, and ranges of about half a MiB a window, which is mapped, behind the
 * kernels before it, through a queue of its own: on CPUs without a copy. The group's thread
 * exchanges it while the device works on. Windows are small because nothing hides the last one. The
 * ranges follow from the model alone, so all ranks have the same.
 */
#ifndef TRAINER_GRADIENT_WINDOWS_H
#define TRAINER_GRADIENT_WINDOWS_H

#include "trainer/model/net_model.h"
#include "trainer/reduce/ranks.h"
#include "trainer/session/gradient_sum.h"

enum { GRADIENT_WINDOW = 1 << 17 }; /* floats */

typedef struct gradient_windows {
    clprune_context *context; /* NULL: not open */
    const rank_group *ranks;  /* not owned */
    const gradient_sum *sum;  /* not owned */
    reduce_kind kind;         /* a sum */
    clprune_mat *parts;       /* (parts_count) that the model tells of, in this order */
    size_t *ends;             /* (parts_count) ranges that are in windows after each part */
    size_t parts_count, parts_room;
    clprune_mat *ranges; /* (ranges_count) rows; each belongs to one window */
    size_t ranges_count;
    void **mapped; /* (ranges_count) */
    cl_command_queue queue;
    size_t index;       /* of the pass in flight */
    size_t taken, sent; /* parts; ranges */
    fault fault;        /* of a callback */
} gradient_windows;

/* Finds the ranges of a model's gradients. Nothing can be sent yet. The
 * caller closes *w in any case. */
clprune_status gradient_windows_open(clprune_context *context, const rank_group *ranks,
    const gradient_sum *sum, net_model *model, gradient_windows *w);
void gradient_windows_close(gradient_windows *w); /* accepts {0} */

/* Lets `kind` of sum be sent. */
bool gradient_windows_connect(gradient_windows *w, reduce_kind kind, fault *f);

/* The last backward pass of a step on this rank, number `index`, or zeros if it has no samples;
 * sends gradients on the way if connected, coded ones with draws of the number `draw`. */
clprune_status gradient_windows_backward(gradient_windows *w, net_model *model,
    const clprune_net_data *data, size_t index, uint64_t draw);

/* Waits until the model's gradients are the sums over the ranks, or this rank's slices of each
 * range are. After a fault the group may still write to the gradients: end the process. */
bool gradient_windows_finish(gradient_windows *w, fault *f);

/* Gives each rank the others' slices of all ranges. Waits. A fault as above. */
bool gradient_windows_gather(gradient_windows *w, fault *f);

#endif
