/* The token-mixing half of a ResMLP block (arXiv 2105.03404), backward from its input alone:
 *
 *     y_n = x_n + ls * (w * n_n + b^T * 1),    n = alpha * x + beta,    for each sample
 *
 * It consists of affine, linear layer over rows, and LayerScale with residual. For the forward pass
 * call these three. The backward pass needs neither n nor the linear layer's output. */
#ifndef CLPRUNE_TOKEN_MIX_H
#define CLPRUNE_TOKEN_MIX_H

#include "clprune/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters, or their gradients, for p tokens of d features. Zero-initialise it, then set all
 * five matrices. */
typedef struct clprune_token_mix {
    clprune_mat alpha, beta; /* 1 x d */
    clprune_mat w, b;        /* p x p, 1 x p */
    clprune_mat ls;          /* 1 x d */
    uint64_t reserved[2];    /* zeros */
} clprune_token_mix;

/* x: (batch * p) x d, as in the forward pass. dx: the same size; dy on entry, the gradient of x
 * with the residual path on return. work: the same size, overwritten. With u_n = w^T * dy_n:
 *
 *     dx      = dy + alpha * ls * u
 *     d ls    = sum of n * u + sum_p b[p] * dy[p]   (sum of (w n + b) * dy, w moved to dy's side)
 *     d alpha = sum of x * ls * u
 *     d beta  = sum of ls * u
 *     d w     = sum_n dy_n * (ls * n_n)^T
 *     d b[p]  = sum over n and c of ls[c] * dy_n[p][c]
 *
 * Each gradient in *grads becomes the value above + beta * its old value; beta = 0 never reads the
 * old value. With beta = 1 the caller can process a batch in parts, since gradients are sums over
 * samples. Matrices must not overlap. Sums run in a fixed order. */
CLPRUNE_API clprune_status clprune_token_mix_backward(clprune_context *context, size_t batch,
    float beta, clprune_mat x, const clprune_token_mix *params, clprune_mat dx, clprune_mat work,
    const clprune_token_mix *grads, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
