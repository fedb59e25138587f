/* The softmax cross-entropy of samples that have several labels: of the tokens of a text. */
#ifndef CLPRUNE_TOKEN_LOSS_H
#define CLPRUNE_TOKEN_LOSS_H

#include "clprune/cross_entropy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A sample has M / batch rows, each with a label (clprune/cross_entropy.h). With l the loss and h
 * the hit of a row, which are 0 if its label is CLPRUNE_IGNORED:
 *     weight     = batch / the number of other labels; 0 if there are none
 *     loss[n][0] = weight * sum of l over the rows of sample n
 *     hit[n][0]  = weight * sum of h over the rows of sample n
 * So their means over the batch are means over all rows that count, as PyTorch's. Without ignored
 * labels they are also the means over each sample's rows.
 *
 * logits, log_p: M x classes, may be the same matrix; labels: M; weight: 1 x 1; loss, hit:
 * batch x 1; hit may be CLPRUNE_NO_MAT. No output may overlap labels. Takes 8 bytes of scratch a
 * row. Errors: INVALID_SIZE (M is no multiple of batch). */
CLPRUNE_API clprune_status clprune_token_loss_forward(clprune_context *context, size_t batch,
    float smoothing, clprune_mat logits, clprune_ints labels, clprune_mat log_p, clprune_mat weight,
    clprune_mat loss, clprune_mat hit, cl_event *event);

/* dlogits[r][k] = scale * weight * (exp(log_p[r][k]) - q[k]), the gradient of scale * sum_n
 * loss[n]; 0 in rows whose label is CLPRUNE_IGNORED or out of range. For the mean over all rows
 * that count take scale = 1 / batch; for that over several calls whose gradients are added, scale =
 * labels of the call that count / those of all calls / batch. dlogits may be log_p. */
CLPRUNE_API clprune_status clprune_token_loss_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat weight, clprune_mat log_p, clprune_ints labels, clprune_mat dlogits,
    cl_event *event);

/* A linear layer, the loss of its output, and their gradients in one: for large
 * vocabularies, whose logits would take more memory than a model's activations. Logits live for
 * some rows at a time: 8 MiB of scratch, on GPUs 1/256 of the memory, up to 256 MiB; or 128 rows if
 * they take more; with a cap an eighth more.
 *     z = x w^T + b, logits = z, or with a cap above 0 cap * tanh(z / cap); loss and hit as above
 *     dx = dz w, dw = dz^T x + beta * dw, db = the sums of dz's columns + beta * db, with dz =
 *         dlogits as above, with a cap times 1 - (logits / cap)^2
 * x, dx: M x d; w, dw: vocabulary x d, w also of bf16 or codes; b, db: 1 x vocabulary; dx may be x.
 * b, hit, dx, dw and db may be CLPRUNE_NO_MAT. */
CLPRUNE_API clprune_status clprune_token_head(clprune_context *context, size_t batch, float beta,
    float smoothing, float scale, float cap, clprune_mat x, clprune_mat w, clprune_mat b,
    clprune_ints labels, clprune_mat loss, clprune_mat hit, clprune_mat dx, clprune_mat dw,
    clprune_mat db, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
