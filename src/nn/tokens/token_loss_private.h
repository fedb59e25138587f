/* Losses of labels with more terms; logits that are bounded. */
#ifndef CLPRUNE_NN_TOKEN_LOSS_PRIVATE_H
#define CLPRUNE_NN_TOKEN_LOSS_PRIVATE_H

#include "nn/layers/loss_private.h"

/* As clprune_token_loss_forward, _backward and clprune_token_head, with weight = batch / the sum of
 * the class weights of the labels in range; the losses of samples are times their weights. terms
 * NULL: zeros; a head takes neither second labels nor targets, and sets first_row. */
clprune_status clprune__token_loss_forward(clprune_context *context, size_t batch, float smoothing,
    clprune_mat logits, clprune_ints labels, const clprune__label_terms *terms, clprune_mat log_p,
    clprune_mat weight, clprune_mat loss, clprune_mat hit, cl_event *event);
clprune_status clprune__token_loss_backward(clprune_context *context, float smoothing, float scale,
    clprune_mat weight, clprune_mat log_p, clprune_ints labels, const clprune__label_terms *terms,
    clprune_mat dlogits, cl_event *event);

clprune_status clprune__token_head(clprune_context *context, size_t batch, float beta,
    float smoothing, float scale, float cap, clprune_mat x, clprune_mat w, clprune_mat b,
    clprune_ints labels, const clprune__label_terms *terms, clprune_mat loss, clprune_mat hit,
    clprune_mat dx, clprune_mat dw, clprune_mat db, cl_event *event);

/* z = cap * tanh(z / cap). */
clprune_status clprune__logit_cap(
    clprune_context *context, float cap, clprune_mat z, cl_event *event);

#endif
