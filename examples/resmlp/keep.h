/*
 * keep.h: the saved-activation policy: in what form each tensor of a block is kept from the forward
 * to the backward pass. One table, read by the model; layers know nothing of it.
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
#include "keep_table.h"

/* The tensors of a block in the order of their making, and who needs them. */
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

/* Recomputed can be
 *     norm1 and tokens    together: from x
 *     norm2, gelu, fc2    together: from x2 and fc1
 *     x2        where those five are, and x is dense: by the token layer's forward pass once more
 *     last_x    its mean over the tokens is kept in its place: the final affine commutes with it
 * and all gradients are those of dense, but for rounding, where the rest is kept dense.
 *
 * Where fc1 is a CODE, norm2 and fc2 are recomputed, x2 and gelu are kept, in any form: the MLP's
 * gradients are products with those two, of a gradient that is off by the code's error alone.
 * Pruning x2 rather than norm2 leaves the part of fc1's weight gradient that beta2 makes as it is.
 */
typedef struct keep_policy {
    keep_rule rule[KEEP_TENSORS]; /* of a block */
    keep_rule last_x;             /* the last block's output; read in that block's policy; MEAN
                                     keeps its mean over the tokens */
} keep_policy;

/* The table of all of them: KEEP_TENSORS entries of a block, then the last x. */
extern const keep_table resmlp_keep;

/* Features of a row of an entry. */
size_t keep_features(const resmlp_arch *arch, size_t entry);

/* Whether the policy makes sense; if not, *why receives a phrase that names the tensors. */
bool keep_policy_check(const keep_policy *policy, char *why, size_t size);

/* Whether a half of a block goes from its input: the token half, x to x2, keeps neither norm1 nor
 * tokens; the MLP, x2 to the next x, neither norm2 nor fc2, and of fc1 and gelu one. */
bool keep_recomputes_tokens(const keep_policy *policy);
bool keep_recomputes_mlp(const keep_policy *policy);

/* Whether fc1 is kept as a code. */
bool keep_codes(const keep_policy *policy);

/* The preset at a position in resmlp_keep.preset_names; see keep_preset_rule. how.bits: of GELU's
 * code and of quantised tensors. */
keep_policy keep_preset(size_t preset, clprune_keep how);

#endif
