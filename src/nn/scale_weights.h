/* The weights of a linear layer, scaled by what lies beside it. */
#ifndef CLPRUNE_NN_SCALE_WEIGHTS_H
#define CLPRUNE_NN_SCALE_WEIGHTS_H

#include "clprune/matrix.h"
#include "runtime/program_cache.h"

/* scaled = w with its rows or its columns, of which there are `length`, multiplied by those of
 * `scale`, 1 x length, called `name` in messages: which of them the kernel says. scaled may be w.
 */
clprune_status clprune__scale_weights(clprune_context *context, const clprune__kernel_def *kernel,
    const char *name, clprune_mat scale, size_t length, clprune_mat w, clprune_mat scaled,
    cl_event *event);

#endif
