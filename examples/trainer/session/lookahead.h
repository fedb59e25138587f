/*
 * lookahead.h: slow weights (Zhang et al., arXiv 1907.08610), as --lookahead has them: every
 * LOOKAHEAD_STEPS steps
 *
 *     slow = a * slow + (1 - a) * w;  w = slow      a = decay^5 * (step / steps)^3
 *
 * so that in the course of a run the weights become their own moving mean (arXiv 2404.00498).
 * Running statistics have the same means.
 */
#ifndef TRAINER_LOOKAHEAD_H
#define TRAINER_LOOKAHEAD_H

#include <clprune/clprune.h>

#include "trainer/model/trainer_model.h"

enum { LOOKAHEAD_STEPS = 5 };

/* A tensor and its slow values. */
typedef struct lookahead_tensor {
    const char *name; /* the model's */
    clprune_mat fast, slow;
} lookahead_tensor;

typedef struct lookahead {
    clprune_context *context;  /* not owned; NULL: no slow weights */
    lookahead_tensor *tensors; /* (count) */
    size_t count;
} lookahead;

/* Makes slow values of the parameters and the running statistics of a model, booked as the
 * optimizer's. The caller closes *l in any case. */
clprune_status lookahead_open(
    clprune_context *context, const trainer_model *type, void *model, lookahead *l);
void lookahead_close(lookahead *l); /* accepts {0} */

/* The slow values of a new run are the first ones. Enqueues. */
clprune_status lookahead_begin(const lookahead *l);

/* After step `step` of `steps`, from 1 on. Enqueues. */
clprune_status lookahead_step(const lookahead *l, double decay, uint64_t step, uint64_t steps);

#endif
