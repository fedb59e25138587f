/* Losses of rows and of elements: second labels, weights, targets in place of labels. */
#ifndef CLPRUNE_NN_LOSS_PRIVATE_H
#define CLPRUNE_NN_LOSS_PRIVATE_H

#include "clprune/cross_entropy.h"
#include "clprune/element_loss.h"
#include "runtime/launch/launch.h"

/* What else decides on the loss of rows. Zeros: the labels alone. */
typedef struct clprune__label_terms {
    /* A second label of each row: its loss is share * that of its label + (1 - share) * that of the
     * other one. others: as many as labels, in [0, classes); shares: rows x 1, in [0, 1], or
     * CLPRUNE_NO_MAT. */
    clprune_ints others;
    clprune_mat shares;
    clprune_mat class_weights; /* 1 x classes, or CLPRUNE_NO_MAT; not with shares */
    /* Or CLPRUNE_NO_MAT: rows x classes, in place of labels, which are then not read: q[k] = (1 -
     * smoothing) * targets[n][k] + smoothing / classes. Without hits and shares. */
    clprune_mat targets;
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

/* Both in one, without log_p: dlogits, which may be logits, or be of bf16 apart from them, is that
 * of scale * weight * the sum of the losses. */
typedef struct clprune__gradient_scale {
    float scale;
    clprune_mat weight; /* 1 x 1 */
} clprune__gradient_scale;

clprune_status clprune__cross_entropy_step(clprune_context *context,
    const clprune__gradient_scale *step, float smoothing, clprune_mat logits, clprune_ints labels,
    const clprune__label_terms *terms, clprune_mat loss, clprune_mat hit, clprune_mat dlogits,
    cl_event *event);

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
