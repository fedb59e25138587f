/* A convolution backward for a part of a store. */
#ifndef CLPRUNE_NN_CONV2D_PRIVATE_H
#define CLPRUNE_NN_CONV2D_PRIVATE_H

#include "clprune/conv2d.h"
#include "nn/store/form.h"

/* As clprune_conv2d_backward, for samples `range` of the store; dy and dx have range.count samples.
 */
clprune_status clprune__conv2d_backward(clprune_conv2d *layer, clprune__range range,
    clprune_extent image, const clprune_saved *saved, clprune_mat dy, clprune_mat w,
    const clprune_grads *grads, cl_event *event);

#endif
