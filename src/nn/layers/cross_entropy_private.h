/* The cross-entropy of some of the rows that have labels. */
#ifndef CLPRUNE_NN_CROSS_ENTROPY_PRIVATE_H
#define CLPRUNE_NN_CROSS_ENTROPY_PRIVATE_H

#include "clprune/cross_entropy.h"
#include "runtime/launch/launch.h"

/* A second label of each row: its loss is share * that of its label + (1 - share) * that of the
 * other one. others: as many as labels, in [0, classes); shares: rows x 1, in [0, 1], or
 * CLPRUNE_NO_MAT: the labels alone. */
typedef struct clprune__label_mix {
    clprune_ints others;
    clprune_mat shares;
} clprune__label_mix;

/* As clprune_cross_entropy_forward and _backward. mix NULL: the labels alone. With weight, 1 x 1,
 * gradients are those of scale * weight * the sum of the losses. */
clprune_status clprune__cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, clprune_ints labels, const clprune__label_mix *mix, clprune_mat log_p,
    clprune_mat loss, clprune_mat hit, cl_event *event);
clprune_status clprune__cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat weight, clprune_mat log_p, clprune_ints labels,
    const clprune__label_mix *mix, clprune_mat dlogits, cl_event *event);

#endif
