/* Layers of products backward, for samples `range` of a store; dy and dx have range.count samples.
 */
#ifndef CLPRUNE_NN_LAYERS_PRIVATE_H
#define CLPRUNE_NN_LAYERS_PRIVATE_H

#include "clprune/conv2d.h"
#include "clprune/linear.h"
#include "nn/store/form.h"

/* As clprune_linear_backward. */
clprune_status clprune__linear_backward(clprune_linear *layer, clprune__range range,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, const clprune_grads *grads,
    cl_event *event);

/* As clprune_conv2d_backward. */
clprune_status clprune__conv2d_backward(clprune_conv2d *layer, clprune__range range,
    clprune_extent image, const clprune_saved *saved, clprune_mat dy, clprune_mat w,
    const clprune_grads *grads, cl_event *event);

#endif
