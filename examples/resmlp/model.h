/*
 * model.h: a ResMLP on an OpenCL device: parameters, kept activations, forward and backward pass.
 *
 *     resmlp model;
 *     resmlp_create(context, &arch, rules, 64, &model);
 *     resmlp_init(&model, seed);
 *     resmlp_forward(&model, 64, images, true);
 *     resmlp_loss(&model, 64, labels, 0.1f, loss, hit);
 *     resmlp_backward(&model, 64, images, labels, 0.1f);
 *     (an optimizer over model.params)
 *     resmlp_destroy(&model);
 *
 * All memory is taken in resmlp_create, for batches of at most `batch`; passes enqueue and return.
 * A backward pass uses up what its forward pass has kept: one for each.
 * Letters: T = batch * tokens * dim, H = batch * tokens * hidden.
 */
#ifndef RESMLP_MODEL_H
#define RESMLP_MODEL_H

#include <stdbool.h>

#include <clprune/clprune.h>

#include "arch.h"
#include "keep.h"
#include "trainer/model/trainer_model.h"

/* The tensors of one block, values or gradients, in the order of arch.h. */
typedef struct resmlp_block_weights {
    clprune_mat ls1, ls2;         /* 1 x dim */
    clprune_mat alpha1, beta1;    /* 1 x dim */
    clprune_mat token_w, token_b; /* tokens x tokens, 1 x tokens */
    clprune_mat alpha2, beta2;    /* 1 x dim */
    clprune_mat fc1_w, fc1_b;     /* hidden x dim, 1 x hidden */
    clprune_mat fc2_w, fc2_b;     /* dim x hidden, 1 x dim */
} resmlp_block_weights;

/* The tensors outside of the blocks. */
typedef struct resmlp_outer_weights {
    clprune_mat stem_w, stem_b; /* dim x (3 * patch * patch), 1 x dim */
    clprune_mat alpha, beta;    /* 1 x dim */
    clprune_mat head_w, head_b; /* classes x dim, 1 x classes */
} resmlp_outer_weights;

typedef struct resmlp_block {
    const keep_rule *rules; /* (KEEP_TENSORS) */
    resmlp_block_weights w, dw;
    clprune_saved *kept[KEEP_TENSORS]; /* NULL: recomputed */
} resmlp_block;

/* Matrices that live within a pass, one for each tensor; absent if no block needs them. The passes
 * call clprune_buffer_forget when the contents are dead, so that a memory plan may reuse the place.
 *
 * TC and HC are T and H, or only `chunk` samples of them if every block that uses the matrix works
 * in chunks: the samples processed at once when half a block is recomputed. */
typedef struct resmlp_workspace {
    clprune_mat stream; /* T: the residual stream of the forward pass, for x and x2 that are kept
                           but not dense; each half of a block adds to it in place */
    clprune_mat made[KEEP_TENSORS]; /* TC or HC: a tensor of a block that is not kept dense, made by
                                       the forward pass, recomputed or restored by the backward
                                       pass; x, and x2 that is kept: only restored */
    clprune_mat last_norm;          /* T: the final affine of the last x */

    clprune_mat dx;         /* T: the gradient of the stream; each half adds to it in place */
    clprune_mat dlast_norm; /* T; these have the names of the tensors whose gradients they hold */
    clprune_mat dfc2, dnorm2, dtokens, dnorm1; /* T */
    clprune_mat dfc1;    /* HC: the gradient of gelu, then in place the gradient of fc1 */
    clprune_mat mixing;  /* TC: the workspace of clprune_token_mix_backward */
    clprune_mat fc1_w;   /* hidden x dim: W1 diag(alpha2), if an MLP is recomputed */
    clprune_mat fc2_w;   /* dim x hidden: diag(ls2) W2, likewise */
    clprune_mat centre;  /* 1 x dim: the mean of x2 over one sample, or 0 with codes; likewise */
    clprune_mat dpooled; /* batch x dim */
} resmlp_workspace;

typedef struct resmlp {
    clprune_context *context; /* not owned */
    trainer_watcher watcher;
    resmlp_arch arch;
    keep_rule *rules; /* of resmlp_keep */
    size_t batch;     /* samples of a pass, at most */
    size_t chunk;     /* samples recomputed at a time; may be lowered */
    size_t tokens;    /* of a sample */

    size_t tensors;        /* resmlp_arch_tensors(&arch) */
    clprune_param *params; /* (tensors) names, values, gradients; weights of linears decay */
    char *names;           /* what params[i].name points into */
    resmlp_outer_weights w, dw;
    resmlp_block *blocks; /* (depth) */

    clprune_patch_embed_desc stem;
    size_t stem_step;                         /* images at a time; may be lowered */
    clprune_linear *token, *fc1, *fc2, *head; /* one layer object serves all blocks */

    clprune_saved *last_x; /* T: output of the last block; NULL if only its mean is kept */
    clprune_saved *mean_x; /* batch x dim: its mean over the tokens; NULL if last_x is kept */
    clprune_saved *pooled; /* batch x dim */
    clprune_mat log_p;     /* batch x classes */

    clprune_mat logits; /* batch x classes; overwritten with their gradient by the backward pass */
    resmlp_workspace work;
} resmlp;

/* Takes all memory; parameters are undefined until initialised or written. A pass has at most
 * `batch` samples. rules: those of resmlp_keep, keep_rules_count of them. arch->name is referenced.
 * On failure *model is zeroed and nothing is held. Errors: INVALID_ARGUMENT (see resmlp_arch_check,
 * keep_check), OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY. */
clprune_status resmlp_create(clprune_context *context, const resmlp_arch *arch,
    const keep_rule *rules, size_t batch, resmlp *model);

/* Releases everything and zeroes *model; accepts a zeroed one. */
void resmlp_destroy(resmlp *model);

/* As in trainer_model.h; `model` is a resmlp. See init.c; the seed of a pass is that of the random
 * draws of blocks and of stochastic rounding. */
clprune_status resmlp_init(void *model, uint64_t seed);
void resmlp_set_seed(void *model, uint64_t seed);

/* The logits of a forward pass are model->logits. */
clprune_status resmlp_forward(void *model, size_t batch, clprune_image_bytes images, bool training);
clprune_status resmlp_loss(
    void *model, size_t batch, cl_mem labels, float smoothing, clprune_mat loss, clprune_mat hit);
clprune_status resmlp_backward(
    void *model, size_t batch, clprune_image_bytes images, cl_mem labels, float smoothing);

#endif
