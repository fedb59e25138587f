/*
 * keep.h: the tensors of a ResMLP that can be kept from the forward to the backward pass, and the
 * presets. One table, read by the model; layers know nothing of it.
 *
 *     norm1 = affine1(x)     tokens = W_t norm1     x2 = x + ls1 * tokens
 *     norm2 = affine2(x2)    fc1 = W_1 norm2        gelu = GELU(fc1)        fc2 = W_2 gelu
 *     next x = x2 + ls2 * fc2
 *
 * Formulas (model*.c) call norm1 to fc2 n1, t, n2, h, g and m.
 * What is not kept is recomputed, or its gradient follows from others; see model_backward.c.
 * With T = batch * tokens * dim and H = batch * tokens * hidden elements, all dense is 6 T + 2 H
 * per block: what PyTorch's autograd keeps.
 */
#ifndef RESMLP_KEEP_H
#define RESMLP_KEEP_H

#include <stdbool.h>

#include "arch.h"
#include "trainer/options/keep_table.h"

/* The tensors of a block in the order in which the forward pass makes them; beside each, what needs
 * it. */
typedef enum keep_tensor {
    KEEP_X,      /* x: affine1's gradients */
    KEEP_NORM1,  /* norm1: the token linear's weight gradient */
    KEEP_TOKENS, /* tokens: LayerScale 1's gradient */
    KEEP_X2,     /* x2: affine2's gradients */
    KEEP_NORM2,  /* norm2: fc1's weight gradient */
    KEEP_FC1,    /* fc1: GELU's derivative */
    KEEP_GELU,   /* gelu: fc2's weight gradient */
    KEEP_FC2,    /* fc2: LayerScale 2's gradient */
    KEEP_TENSORS /* how many there are */
} keep_tensor;

/* KEEP_TENSORS entries of a block, then `last x`, the last block's output. These can be recomputed:
 *     norm1 and tokens    together, from x
 *     norm2, gelu, fc2    together, from x2 and fc1
 *     x2        if those five are recomputed and x is dense: the token layer runs forward again
 *     last x    its mean over the tokens is kept instead: the final affine commutes with it
 * If all other tensors are dense, the gradients are dense's up to rounding.
 *
 * If fc1 is a CODE, norm2 and fc2 are recomputed, and x2 and gelu are kept, in any form. The MLP's
 * weight gradients are products of x2 and gelu with gradients that have no error but the code's.
 * Pruning x2 instead of norm2 keeps the part of fc1's weight gradient that comes from beta2
 * exact. */
extern const keep_table resmlp_keep;

/* Features of a row of an entry. */
size_t keep_features(const resmlp_arch *arch, size_t entry);

/* Whether half of a block is recomputed from its input. The token half, x to x2, then keeps neither
 * norm1 nor tokens. The MLP, x2 to the next x, keeps neither norm2 nor fc2, and gelu only beside a
 * code of fc1. rules: the block's. */
bool keep_recomputes_tokens(const keep_rule *rules);
bool keep_recomputes_mlp(const keep_rule *rules);

/* Whether fc1 is kept as a code. */
bool keep_codes(const keep_rule *rules);

#endif
