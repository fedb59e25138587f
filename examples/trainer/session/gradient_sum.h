/*
 * gradient_sum.h: the gradients of a step that takes several passes, summed as a binary counter
 * carries: ((g0 + g1) + (g2 + g3)) + g4. Errors grow with the logarithm of the passes, and several
 * processes that each sum a part in this way, and then their sums, get the bits of one.
 */
#ifndef TRAINER_GRADIENT_SUM_H
#define TRAINER_GRADIENT_SUM_H

#include <clprune/clprune.h>

enum { GRADIENT_SUM_LEVELS = 17 }; /* of 65536 passes */

typedef struct gradient_sum {
    clprune_context *context; /* not owned */
    clprune_mat *grads;       /* (buffers) the model's gradients, each buffer of them as a row */
    clprune_mat *levels[GRADIENT_SUM_LEVELS]; /* (buffers) sums of 2^level passes */
    size_t buffers;
} gradient_sum;

/* Takes memory for the gradients of params (count) at floor(log2(passes - 1)) + 1 levels, which is
 * none with 1 pass; booked as gradients. The caller closes *sum in any case. */
clprune_status gradient_sum_open(clprune_context *context, size_t passes,
    const clprune_param *params, size_t count, gradient_sum *sum);
void gradient_sum_close(gradient_sum *sum); /* accepts {0} */

/* After the backward pass of pass `index`, from 0 on: adds up all gradients, or those of `part`, a
 * row of their buffer. After the last pass they are the sum, before it their contents are used up.
 * Enqueues. */
clprune_status gradient_sum_add_all(const gradient_sum *sum, size_t index, bool last);
clprune_status gradient_sum_add(const gradient_sum *sum, clprune_mat part, size_t index, bool last);

/* Writes zeros in place of a backward pass over no samples. */
clprune_status gradient_sum_zero(const gradient_sum *sum);

#endif
