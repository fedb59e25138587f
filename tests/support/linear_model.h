/* linear_model.h: a model for the trainer that is not one of the examples'.
 *
 * It is linear: logits = images W^T + ones * mean. The state is mean, a running mean of the logits
 * in training; a run that loses it has other losses. It counts its batches. */
#ifndef TEST_LINEAR_MODEL_H
#define TEST_LINEAR_MODEL_H

#include "trainer/model/trainer_model.h"

typedef struct linear_model {
    clprune_context *context;
    clprune_patch_embed_desc whole; /* an image is one patch */
    size_t pixels, classes;
    clprune_mat w, dw, mean, ones, zero, logits, log_p;
    clprune_param param;
    trainer_state state;
    int64_t batches;
    trainer_count count;
    trainer_watcher watcher;
    uint64_t seeds[8]; /* of the first steps, in a run with a device */
    size_t steps;
} linear_model;

/* The model; without state and count; without presets for --memory-limit to choose from. */
extern const trainer_model linear_with_state, linear_without_state, linear_without_ladder;

/* Arguments of a short run. */
#define LINEAR_SMALL "--train-limit 24 --test-limit 12 --batch-size 8 --optimizer sgd --lr 0.1 "

#endif
