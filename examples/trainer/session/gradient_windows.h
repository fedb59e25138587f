/*
 * gradient_windows.h: the gradients of a step, added over the ranks of a run while the backward
 * pass goes on.
 *
 * The model tells of gradients as soon as they are complete. Those of about 8 MiB make a window,
 * which is mapped, behind the kernels before it, through a queue of its own: on CPUs without a
 * copy. The group's thread exchanges it while the device works on. All ranks have the same windows
 * in the same order.
 */
#ifndef TRAINER_GRADIENT_WINDOWS_H
#define TRAINER_GRADIENT_WINDOWS_H

#include "trainer/model/trainer_model.h"
#include "trainer/reduce/ranks.h"
#include "trainer/session/gradient_sum.h"

enum { GRADIENT_WINDOW = 2 << 20, GRADIENT_RANGES = 64 }; /* floats; ranges of a window, at most */

typedef struct gradient_windows {
    clprune_context *context; /* NULL: not open */
    const rank_group *ranks;  /* not owned */
    const gradient_sum *sum;  /* not owned */
    cl_command_queue queue;
    size_t index;             /* of the pass in flight */
    clprune_mat *parts;       /* that the model tells of, in this order */
    size_t parts_count, room; /* 0: not known yet */
    bool by_parts; /* all ranks know them; else a step has one window, after its passes */
    clprune_mat ranges[GRADIENT_RANGES]; /* complete, in no window yet */
    size_t ranges_count, floats;
    struct gradient_mapping {
        cl_mem buffer;
        void *host;
    } * mapped;
    size_t mapped_count, mapped_room;
    fault fault; /* of a callback */
} gradient_windows;

/* Opens what nothing is sent through yet. On failure *w needs no closing. */
bool gradient_windows_open(clprune_context *context, const rank_group *ranks,
    const gradient_sum *sum, gradient_windows *w, fault *f);
void gradient_windows_close(gradient_windows *w); /* accepts {0} */

/* The last backward pass of a step on this rank, number `index`, or zeros if it has no samples;
 * sends gradients on the way. */
clprune_status gradient_windows_backward(gradient_windows *w, const trainer_model *type,
    void *model, const clprune_net_data *data, size_t index);

/* Waits until the model's gradients are the sums over the ranks. After a fault the group may still
 * write to the gradients: end the process. */
bool gradient_windows_finish(gradient_windows *w, fault *f);

#endif
