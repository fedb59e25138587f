/* The token-mixing half of a ResMLP block (arXiv 2105.03404), backward from its input alone:
 *
 *     y_n = x_n + ls * (w * n_n + b^T * 1),    n = alpha * x + beta,    for each sample
 *
 * is affine, token linear layer and LayerScale with residual, one after the other; those are also
 * its forward pass. Neither n nor the output of the token linear layer need be kept. */
#ifndef CLPRUNE_TOKEN_MIX_H
#define CLPRUNE_TOKEN_MIX_H

#include <stdbool.h>

#include "clprune/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters, or their gradients, for p tokens of d features. */
typedef struct clprune_token_mix {
    clprune_mat alpha, beta; /* 1 x d */
    clprune_mat w, b;        /* p x p, 1 x p */
    clprune_mat ls;          /* 1 x d */
} clprune_token_mix;

/* x: (batch * p) x d, as in the forward pass. dx: the same size, dy on entry, on return the
 * gradient of x, residual path included. work: the same size, overwritten. With u_n = w^T * dy_n:
 *     dx = dy + alpha * ls * u
 *     d ls    = sum of n * u + sum_p b[p] * dy[p]     (sum of (w n + b) * dy, w moved to dy's side)
 *     d alpha = sum of x * ls * u,   d beta = sum of ls * u
 *     d w     = sum_n dy_n * (ls * n_n)^T,   d b[p] = sum over n and c of ls[c] * dy_n[p][c]
 * Each gradient in *grads becomes its value above + beta * its old value, which beta 0 does not
 * read. All are sums over samples, so a backward pass can go through a batch in parts, with x, dx
 * and work of a part alone. All matrices lie apart. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_token_mix_backward(clprune_context *context, float beta,
    size_t batch, clprune_mat x, const clprune_token_mix *params, clprune_mat dx, clprune_mat work,
    const clprune_token_mix *grads, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
