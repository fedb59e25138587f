/* The cross-entropy of some of the rows that have labels; a second label, weights of classes. */
#ifndef CLPRUNE_NN_CROSS_ENTROPY_PRIVATE_H
#define CLPRUNE_NN_CROSS_ENTROPY_PRIVATE_H

#include "clprune/cross_entropy.h"
#include "runtime/launch/launch.h"

/* What else decides on the loss of rows. Zeros: the labels alone. */
typedef struct clprune__label_terms {
    /* A second label of each row: its loss is share * that of its label + (1 - share) * that of the
     * other one. others: as many as labels, in [0, classes); shares: rows x 1, in [0, 1], or
     * CLPRUNE_NO_MAT. */
    clprune_ints others;
    clprune_mat shares;
    clprune_mat class_weights; /* 1 x classes, or CLPRUNE_NO_MAT; not with shares */
    /* Or CLPRUNE_NO_MAT: samples x 1, of sample_rows rows each; the first row of the call is row
     * first_row of all. Gradients of a row are times its sample's weight; losses of rows are not.
     */
    clprune_mat weights;
    size_t sample_rows, first_row;
} clprune__label_terms;

/* As clprune_cross_entropy_forward and _backward, with q[k] = class weight k * q[k] and the
 * gradient scale * (exp(log_p[n][k]) * sum_j q[j] - q[k]). With weight, 1 x 1, gradients are those
 * of scale * weight * the sum of the losses. terms NULL: zeros. */
clprune_status clprune__cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, clprune_ints labels, const clprune__label_terms *terms, clprune_mat log_p,
    clprune_mat loss, clprune_mat hit, cl_event *event);
clprune_status clprune__cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat weight, clprune_mat log_p, clprune_ints labels,
    const clprune__label_terms *terms, clprune_mat dlogits, cl_event *event);

#endif
