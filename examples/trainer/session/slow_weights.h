/*
 * slow_weights.h: means of the weights of a run, as --lookahead and --ema have them.
 *
 *     lookahead    every LOOKAHEAD_STEPS steps slow = a * slow + (1 - a) * w, and w = slow, with
 *                  a = decay^5 * (step / steps)^3: in the course of a run the weights become their
 *                  own moving mean (Zhang et al., arXiv 1907.08610, as arXiv 2404.00498 has it)
 *     ema          after each step slow = a * slow + (1 - a) * w, with
 *                  a = min(decay, (1 + step) / (10 + step)); training does not see them
 *
 * Running statistics have the same means.
 */
#ifndef TRAINER_SLOW_WEIGHTS_H
#define TRAINER_SLOW_WEIGHTS_H

#include <clprune/clprune.h>

#include "trainer/model/net_model.h"

enum { LOOKAHEAD_STEPS = 5 };

/* A tensor and its slow values. */
typedef struct slow_tensor {
    const char *name; /* the model's */
    clprune_mat fast, slow;
} slow_tensor;

typedef struct slow_weights {
    clprune_context *context; /* not owned; NULL: no slow weights */
    slow_tensor *tensors;     /* (count) */
    size_t count;
    cl_mem room; /* of one tensor, for swaps */
} slow_weights;

/* Makes slow values of the parameters and the running statistics of a model, booked as the
 * optimizer's. The caller closes *s in any case. */
clprune_status slow_weights_open(clprune_context *context, net_model *model, slow_weights *s);
void slow_weights_close(slow_weights *s); /* accepts {0} */

/* The slow values of a new run are the first ones. Enqueues. */
clprune_status slow_weights_begin(const slow_weights *s);

/* After step `step`, from 1 on, of `steps`. Enqueue. */
clprune_status slow_weights_lookahead(
    const slow_weights *s, double decay, uint64_t step, uint64_t steps);
clprune_status slow_weights_ema(const slow_weights *s, double decay, uint64_t step);

/* The model gets the slow values, and these its own. Enqueues. */
clprune_status slow_weights_swap(const slow_weights *s);

#endif
