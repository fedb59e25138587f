/* Means over elements that have weights. */
#ifndef CLPRUNE_NN_ELEMENT_LOSS_PRIVATE_H
#define CLPRUNE_NN_ELEMENT_LOSS_PRIVATE_H

#include "clprune/element_loss.h"

/* Each may be CLPRUNE_NO_MAT. columns, positives: 1 x d; samples: batch x 1. The loss and the
 * gradient of an element are times the weight of its column and of its sample. positives, of
 * CLPRUNE_LOSS_BINARY alone, with p that of the column: an element's loss is (1 - t) y + (1 + (p -
 * 1) t) (max(-y, 0) + log(1 + exp(-|y|))), so that of targets of 1 is times p. */
typedef struct clprune__element_weights {
    clprune_mat columns, positives, samples;
} clprune__element_weights;

/* As clprune_element_loss_forward and _backward. weights NULL: none. */
clprune_status clprune__element_loss_forward(clprune_context *context,
    const clprune_element_loss *desc, const clprune__element_weights *weights, size_t batch,
    clprune_mat y, clprune_mat target, clprune_mat loss, cl_event *event);
clprune_status clprune__element_loss_backward(clprune_context *context,
    const clprune_element_loss *desc, const clprune__element_weights *weights, size_t batch,
    float scale, clprune_mat y, clprune_mat target, clprune_mat dy, cl_event *event);

#endif
