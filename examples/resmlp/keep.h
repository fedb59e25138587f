/*
 * keep.h: the saved-activation policy: in what form each tensor of a block is kept from the forward
 * to the backward pass. One table, read by the model; layers know nothing of it.
 *
 *     n1 = affine1(x)      t = W_t n1       x2 = x + ls1 * t
 *     n2 = affine2(x2)     h = fc1(n2)      g = gelu(h)      m = fc2(g)      next x = x2 + ls2 * m
 *
 * With T = batch * tokens * dim and H = batch * tokens * hidden elements, all dense is 6 T + 2 H
 * per block: what PyTorch's autograd keeps.
 */
#ifndef RESMLP_KEEP_H
#define RESMLP_KEEP_H

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

/* As the fields of clprune_saved_desc; all but form is read for PRUNED only. */
typedef struct keep_rule {
    clprune_saved_form form;
    float sparsity;
    clprune_block block;
    clprune_norm norm;
    clprune_criterion criterion;
} keep_rule;

/* A pruned tensor that is not the input of a linear layer is restored before it is used. */
typedef struct keep_policy {
    keep_rule rule[KEEP_TENSORS];
} keep_policy;

/* "x", "norm1", ...: what the ledger calls a tensor of block i after "blocks.i." */
const char *keep_name(keep_tensor tensor);

/* "dense": all dense. "paper": norm1, norm2 and gelu, the inputs of the linear layers, are pruned
 * (arXiv 2311.16883). */
extern const char *const keep_presets[]; /* ends with NULL */

/* The preset at a position in keep_presets. `pruned` is the rule of the tensors that it prunes; at
 * sparsity 0 they stay dense: indices would cost and save nothing. */
keep_policy keep_preset(size_t preset, keep_rule pruned);

#endif
