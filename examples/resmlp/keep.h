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

#include <clprune/saved.h>

/* The tensors of a block in order of their making: X(constant, name in the ledger, who needs it) */
#define KEEP_LIST(X)                                                                               \
    X(KEEP_X, "x")      /* affine1's gradients; the last block's output: the final affine's */     \
    X(KEEP_N1, "norm1") /* the token linear's weight gradient */                                   \
    X(KEEP_T, "tokens") /* LayerScale 1's gradient */                                              \
    X(KEEP_X2, "x2")    /* affine2's gradients */                                                  \
    X(KEEP_N2, "norm2") /* fc1's weight gradient */                                                \
    X(KEEP_H, "fc1")    /* GELU's derivative */                                                    \
    X(KEEP_G, "gelu")   /* fc2's weight gradient */                                                \
    X(KEEP_M, "fc2")    /* LayerScale 2's gradient */

typedef enum keep_tensor {
#define KEEP_ENUM(constant, name) constant,
    KEEP_LIST(KEEP_ENUM)
#undef KEEP_ENUM
        KEEP_TENSORS /* how many there are */
} keep_tensor;

typedef enum keep_form {
    KEEP_DENSE,      /* as it is */
    KEEP_PRUNED,     /* its best blocks; restored before use but by a linear layer's dW */
    KEEP_RECOMPUTED, /* not at all */
    KEEP_CODE        /* fc1 alone: a code of GELU's derivative, see clprune/gelu_code.h */
} keep_form;

/* code_bits (2, 4 or 8) is read for CODE only; the rest is as the fields of clprune_saved_desc, and
 * read for PRUNED only. */
typedef struct keep_rule {
    keep_form form;
    float sparsity;
    clprune_block block;
    clprune_norm norm;
    clprune_criterion criterion;
    clprune_value_type value_type;
    clprune_index_type index_type;
    unsigned code_bits;
} keep_rule;

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
    keep_rule last_x;             /* the last block's output; read in that block's policy */
} keep_policy;

/* NULL where the policy makes sense, else what is wrong with it, one phrase. */
const char *keep_check(const keep_policy *policy);

/* "x", "norm1", ...: what the ledger calls a tensor of block i after "blocks.i." */
const char *keep_name(keep_tensor tensor);

/* Whether a half of a block goes from its input: the token half, x to x2, keeps neither norm1 nor
 * tokens; the MLP, x2 to the next x, neither norm2 nor fc2, and of fc1 and gelu one. */
bool keep_recomputes_tokens(const keep_policy *policy);
bool keep_recomputes_mlp(const keep_policy *policy);

/* Whether fc1 is kept as a code. */
bool keep_codes(const keep_policy *policy);

/* "dense": all dense. "paper": norm1, norm2 and gelu, the inputs of the linear layers, are pruned
 * (arXiv 2311.16883). "exact": x, x2 and fc1 are dense, the rest is recomputed. "exact-tokens": so
 * is x2. "compact": x, x2 and gelu are pruned, fc1 is a code, the rest is recomputed. */
extern const char *const keep_presets[]; /* ends with NULL */

/* Whether a preset prunes tensors, so that a sparsity means something to it. */
bool keep_preset_prunes(size_t preset);

/* Whether a preset keeps fc1 as a code. */
bool keep_preset_codes(size_t preset);

/* How a preset stores which blocks are kept, where nothing else is asked for: compact in as few
 * bytes as that takes, paper as the paper does. */
clprune_index_type keep_preset_index(size_t preset);

/* The preset at a position in keep_presets. `rule` says how it prunes and codes what it prunes and
 * codes; at sparsity 0 and fp32 values the pruned tensors stay dense: indices would cost and save
 * nothing. */
keep_policy keep_preset(size_t preset, keep_rule rule);

#endif
