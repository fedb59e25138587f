/* Reference of the token half of a block, computed step by step like autograd: affine, token linear
 * layer, LayerScale with residual. All arrays dense and row-major. */
#ifndef CLPRUNE_TOKEN_MIX_REF_H
#define CLPRUNE_TOKEN_MIX_REF_H

#include <stddef.h>

/* Sizes: x, dy, dx (batch * tokens) x cols; alpha, beta, ls: cols; w: tokens^2; b: tokens. */
typedef struct token_mix_ref {
    size_t batch, tokens, cols;
    const double *x, *alpha, *beta, *w, *b, *ls, *dy;
} token_mix_ref;

typedef struct token_mix_ref_grads {
    double *dx, *dalpha, *dbeta, *dw, *db, *dls;
} token_mix_ref_grads;

/* y = x + ls * (w n + b 1^T), n = alpha * x + beta. */
void token_mix_ref_forward(const token_mix_ref *in, double *y);

/* All gradients. With magnitudes as inputs, the outputs are the sums of magnitudes. */
void token_mix_ref_backward(const token_mix_ref *in, token_mix_ref_grads out);

#endif
