/* Scales the weights of a linear layer by the factors of the layer beside it. */
#ifndef CLPRUNE_NN_SCALE_WEIGHTS_H
#define CLPRUNE_NN_SCALE_WEIGHTS_H

#include "clprune/matrix.h"
#include "runtime/launch/program_cache.h"

/* scaled = w with each row or each column multiplied by its element of `scale`, 1 x length; the
 * kernel says which. `name` names scale in messages. scaled may be w. */
clprune_status clprune__scale_weights(clprune_context *context, const clprune__kernel_def *kernel,
    const char *name, clprune_mat scale, size_t length, clprune_mat w, clprune_mat scaled,
    cl_event *event);

#endif
