/*
 * resnet.h: a ResNet on an OpenCL device: parameters, running statistics, kept activations, forward
 * and backward pass. resnet_arch.h and resnet_keep.h have the names. All memory is taken in
 * resnet_create, for batches of at most `batch`; passes enqueue and return. A backward pass uses up
 * what its forward pass has kept: one for each.
 */
#ifndef RESNET_MODEL_H
#define RESNET_MODEL_H

#include <stdbool.h>

#include <clprune/clprune.h>

#include "resnet_arch.h"
#include "resnet_keep.h"
#include "trainer/model/trainer_model.h"

/* A convolution with its batch norm. */
typedef struct resnet_part {
    resnet_unit unit;
    clprune_conv2d *conv;
    clprune_mat w, dw;                      /* out x (kernel^2 * in) */
    clprune_mat gamma, dgamma, beta, dbeta; /* 1 x out */
    clprune_mat running_mean, running_var;  /* 1 x out */
    int64_t batches;       /* of training, behind the running statistics; or TRAINER_NO_COUNT */
    clprune_mat mean, inv; /* 1 x out: the statistics of this pass */
} resnet_part;

/* A block, and its matrices that live within a pass. Each has a buffer of its own, absent if it is
 * not needed. The passes call clprune_buffer_forget when the contents are dead, so that a memory
 * plan may reuse the place. */
typedef struct resnet_block {
    resnet_part *conv1, *conv2, *down; /* down: NULL where the shortcut is x */
    keep_rule rule[KEEP_IN_BLOCK];
    clprune_saved *kept[KEEP_IN_BLOCK]; /* NULL: recomputed, or the tensor has no rows */

    clprune_mat made[KEEP_IN_BLOCK]; /* a tensor that is not kept dense: made by the forward pass,
                                        recomputed or restored by the backward pass */
    clprune_mat shortcut;            /* bn(downsample) */
    clprune_mat dx; /* the gradient of x, if x has another size than out; else it is made in place
                       of out's gradient */
    clprune_mat dconv2, drelu1; /* gradients of conv2, then downsample; of relu1, then conv1 */
    clprune_saved *out_view, *relu1_view; /* made[KEEP_OUT], made[KEEP_RELU1] as dense stores */
} resnet_block;

/* The same of the stem and the head. */
typedef struct resnet_workspace {
    clprune_mat made[KEEP_ALL];          /* of entries outside of the blocks */
    clprune_mat image_again, conv_again; /* stem_step images, for the backward pass: the stem's
                                            input and convolution where they are not kept dense */
    clprune_mat dstem; /* stem_step images: the gradient of the stem's relu, then of its
                          convolution */
    /* For resnet_stem_by_product, made in the forward pass: the mean of the images, and a matrix of
     * the batch size in each element; their products conv^T * patches and ones^T * patches, shaped
     * as the weights. */
    clprune_mat image_mean, ones, conv_product, patch_sums;
    clprune_mat sums;      /* 2 x channels */
    clprune_mat dlast;     /* the gradient of the last out */
    clprune_mat dfeatures; /* batch x features */
    /* made[KEEP_STEM_RELU], made[KEEP_IMAGE], image_again and image_mean as dense stores */
    clprune_saved *first_view, *image_view, *again_view, *mean_view;
} resnet_workspace;

typedef struct resnet {
    clprune_context *context; /* not owned */
    trainer_watcher watcher;
    resnet_arch arch;
    size_t batch;     /* samples of a pass, at most */
    size_t stem_step; /* images at a time in the stem's backward pass */

    size_t tensors;        /* resnet_arch_tensors(&arch) */
    clprune_param *params; /* (tensors) */
    char *names;           /* what params[i].name points into */
    size_t parts_count;
    resnet_part *parts;      /* (parts_count) */
    trainer_state *states;   /* (2 * parts_count) running statistics, named as in torchvision */
    char (*state_names)[64]; /* what states[i].name points into */
    trainer_count *counts;   /* (parts_count) their batches, likewise */
    size_t blocks_count;
    resnet_block *blocks;
    clprune_linear *head;
    clprune_mat head_w, head_dw, head_b, head_db;

    keep_rule rule[KEEP_ALL];      /* of entries outside of the blocks */
    clprune_saved *kept[KEEP_ALL]; /* likewise */
    clprune_mat positions;         /* of the max pool; absent without one */
    clprune_saved *features;       /* batch x channels: the means over the pixels */
    clprune_mat log_p;             /* batch x classes */
    clprune_mat logits;            /* batch x classes; overwritten with their gradient */
    resnet_workspace work;
} resnet;

/* rules: those of resnet_keep_table, keep_rules_count of them. On failure *model is zeroed and
 * nothing is held. Errors: INVALID_ARGUMENT, OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY. */
clprune_status resnet_create(clprune_context *context, const resnet_arch *arch,
    const keep_rule *rules, size_t batch, resnet *model);
void resnet_destroy(resnet *model); /* accepts a zeroed one */

/* As in trainer_model.h; `model` is a resnet. See resnet_init.c. */
clprune_status resnet_init(void *model, uint64_t seed);
void resnet_set_seed(void *model, uint64_t seed);
clprune_status resnet_forward(void *model, size_t batch, clprune_image_bytes images, bool training);
clprune_status resnet_loss(
    void *model, size_t batch, cl_mem labels, float smoothing, clprune_mat loss, clprune_mat hit);
clprune_status resnet_backward(
    void *model, size_t batch, clprune_image_bytes images, cl_mem labels, float smoothing);

#endif
