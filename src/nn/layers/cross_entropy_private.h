/* The cross-entropy of some of the rows that have labels. */
#ifndef CLPRUNE_NN_CROSS_ENTROPY_PRIVATE_H
#define CLPRUNE_NN_CROSS_ENTROPY_PRIVATE_H

#include "clprune/cross_entropy.h"
#include "runtime/launch/launch.h"

/* As clprune_cross_entropy_forward and _backward; With
 * weight, 1 x 1, gradients are those of scale * weight * the sum of the losses. */
clprune_status clprune__cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, clprune_ints labels, clprune_mat log_p, clprune_mat loss, clprune_mat hit,
    cl_event *event);
clprune_status clprune__cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat weight, clprune_mat log_p, clprune_ints labels, clprune_mat dlogits,
    cl_event *event);

#endif
