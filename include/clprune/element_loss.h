/* Losses that are means over elements: of regressions, boxes, several labels at once. */
#ifndef CLPRUNE_ELEMENT_LOSS_H
#define CLPRUNE_ELEMENT_LOSS_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of an element y with the target t; d = y - t. */
typedef enum clprune_element_loss_kind {
    CLPRUNE_LOSS_SQUARED = 0,   /* d^2 */
    CLPRUNE_LOSS_SMOOTH_L1 = 1, /* d^2 / (2 beta) where |d| < beta, else |d| - beta / 2 (arXiv
                                   1504.08083; PyTorch's smooth_l1_loss); with beta 0 |d| */
    CLPRUNE_LOSS_BINARY = 2     /* the cross-entropy of a logit y and a probability t in [0, 1]:
                                   max(y, 0) - y t + log(1 + exp(-|y|)) */
} clprune_element_loss_kind;

typedef struct clprune_element_loss {
    clprune_element_loss_kind kind;
    float beta; /* of SMOOTH_L1: at least 0, finite; of others 0 */
} clprune_element_loss;

/* loss[n][0] = the mean of the elements' losses over the rows and columns of sample n; it is finite
 * if their sum is. y, target: (batch * rows) x d; loss: batch x 1, apart from both. A sample
 * without elements has loss NaN. Sums run in a fixed order, which depends on rows and d alone: a
 * sample has the same loss in any batch. They are added up in parts, so the error of a large sample
 * stays near that of a small one. Errors: INVALID_ARGUMENT (desc), INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_element_loss_forward(clprune_context *context,
    const clprune_element_loss *desc, size_t batch, clprune_mat y, clprune_mat target,
    clprune_mat loss, cl_event *event);

/* dy, the gradient of scale * sum_n loss[n]: scale / (rows * d) times 2 d; d / beta where |d| <
 * beta, else the sign of d; or 1 / (1 + exp(-y)) - t. For the mean loss use scale = 1 / batch. y,
 * target, dy: (batch * rows) x d; dy may be y. */
CLPRUNE_API clprune_status clprune_element_loss_backward(clprune_context *context,
    const clprune_element_loss *desc, size_t batch, float scale, clprune_mat y, clprune_mat target,
    clprune_mat dy, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
