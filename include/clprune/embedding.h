/* The embedding of tokens: each token's row of a table. */
#ifndef CLPRUNE_EMBEDDING_H
#define CLPRUNE_EMBEDDING_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[r] = weight[tokens[r]]. weight: vocabulary x d, also of bf16 or codes; y: M x d; tokens: M. A
 * token outside [0, vocabulary) makes its row NaN; nothing outside of weight is read. y must not
 * overlap tokens or weight. */
CLPRUNE_API clprune_status clprune_embedding_forward(clprune_context *context, clprune_ints tokens,
    clprune_mat weight, clprune_mat y, cl_event *event);

/* dweight[t] = sum of dy[r] over the rows r with tokens[r] = t, in their order, + beta *
 * dweight[t]. beta = 0 never reads dweight; beta = 1 accumulates, and only touches the rows of
 * tokens that occur. Tokens outside [0, vocabulary) are left out. dy: M x d; dweight: vocabulary x
 * d, must not overlap tokens or dy. Takes 8 bytes of scratch a row. */
CLPRUNE_API clprune_status clprune_embedding_backward(clprune_context *context, float beta,
    clprune_ints tokens, clprune_mat dy, clprune_mat dweight, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
