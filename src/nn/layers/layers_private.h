/* Layers of products backward, for samples `range` of a store; dy and dx have range.count of
 * them. */
#ifndef CLPRUNE_NN_LAYERS_PRIVATE_H
#define CLPRUNE_NN_LAYERS_PRIVATE_H

#include "clprune/conv2d.h"
#include "clprune/linear.h"
#include "nn/store/form.h"

/* As clprune_linear_backward. */
clprune_status clprune__linear_backward(clprune_linear *layer, clprune__range range,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, const clprune_grads *grads,
    cl_event *event);

/* Whether its dy may be of bf16, to which its products would round it: on tensor cores, with x kept
 * dense or in 16 bits; if it is a product of matrices, in any form whose products read it. */
bool clprune__conv2d_backward_reads_bf16(const clprune_context *context,
    const clprune_conv2d_desc *desc, clprune_extent image, const clprune_keep *x);

/* As clprune_conv2d_backward, which takes such a dy, too. */
clprune_status clprune__conv2d_backward(clprune_conv2d *layer, clprune__range range,
    clprune_extent image, const clprune_saved *saved, clprune_mat dy, clprune_mat w,
    const clprune_grads *grads, cl_event *event);

#endif
