/* The gradients that the backward pass of a layer with weights computes: an argument of
 * clprune_linear_backward, clprune_conv2d_backward, clprune_patch_embed_backward and
 * clprune_activation_backward.
 *
 *     clprune_linear_backward(layer, batch, saved, dy, w,
 *         &(clprune_grads){.dx = dx, .dw = dw, .db = db}, NULL);
 */
#ifndef CLPRUNE_GRADS_H
#define CLPRUNE_GRADS_H

#include "clprune/matrix.h"

/* Zero-initialise it: CLPRUNE_NO_MAT, which is all zeros, skips a gradient. */
typedef struct clprune_grads {
    clprune_mat dx, dw, db; /* of the layer's input, weights and bias */
    float beta;    /* dw and db become the gradient + beta * the old value; 0 never reads it */
    float dx_beta; /* the same for dx: 1 adds to the gradient of a shortcut */
} clprune_grads;

#endif
