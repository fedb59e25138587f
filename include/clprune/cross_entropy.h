/* Softmax cross-entropy with label smoothing. */
#ifndef CLPRUNE_CROSS_ENTROPY_H
#define CLPRUNE_CROSS_ENTROPY_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The label of a row that is left out: its loss, hit and gradient are 0. PyTorch's ignore_index. */
enum { CLPRUNE_IGNORED = -100 };

/* With target q[k] = (1 - smoothing) * [k = label] + smoothing / classes:
 *     log_p[n][k] = logits[n][k] - max_n - log sum_k exp(logits[n][k] - max_n)
 *     loss[n][0]  = -sum_k q[k] * log_p[n][k]
 *     hit[n][0]   = 1 where the label has the largest logit (ties: the lowest class), else 0
 * logits, log_p: batch x classes, may be the same matrix; labels: `batch` of them in [0, classes),
 * or CLPRUNE_IGNORED; loss, hit: batch x 1; hit may be CLPRUNE_NO_MAT. No output may overlap
 * labels. Another label makes its row's loss NaN and no other. smoothing in [0, 1). */
CLPRUNE_API clprune_status clprune_cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, clprune_ints labels, clprune_mat log_p, clprune_mat loss, clprune_mat hit,
    cl_event *event);

/* dlogits[n][k] = scale * (exp(log_p[n][k]) - q[k]), the gradient of scale * sum_n loss[n]. For the
 * mean loss use scale = 1 / batch. log_p, dlogits: batch x classes; dlogits may be log_p, and must
 * not overlap labels, which are as above. A label out of range makes the row's gradient 0, so the
 * row does not train. */
CLPRUNE_API clprune_status clprune_cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat log_p, clprune_ints labels, clprune_mat dlogits, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
