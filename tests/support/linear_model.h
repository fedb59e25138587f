/* linear_model.h: a model for the trainer that is not one of the examples'.
 *
 * It is linear: logits = images W^T + ones * mean. The state is mean, a running mean of the logits
 * in training; a run that loses it has other losses. It counts its batches. */
#ifndef TEST_LINEAR_MODEL_H
#define TEST_LINEAR_MODEL_H

#include "trainer/run/run.h"

typedef struct linear_model {
    clprune_context *context;
    clprune_patch_embed_desc whole; /* an image is one patch */
    size_t pixels, classes;
    clprune_mat w, dw, mean, ones, zero, logits, log_p;
    clprune_param param;
    trainer_state state;
    int64_t batches;
    trainer_count count;
    trainer_watch_fn *watch;
    void *watch_user;
    uint64_t seeds[8]; /* of the first steps, in a run with a device */
    size_t steps;
} linear_model;

/* The model; without state and count; without presets for --memory-limit to choose from. */
extern const trainer_model linear_with_state, linear_without_state, linear_without_ladder;

/* Arguments of a short run. */
extern const char linear_small[];

/* Opens a run on the device under test; false with a fault. */
bool linear_open(
    const trainer_model *model, const char *arguments, options *o, training_run *t, fault *f);

/* Trains to the end, or until the run has to stop, and saves. Fails the case on a fault. */
void linear_train(training_run *t, fault *f);

/* A run into a folder, from the start or from a checkpoint. */
void linear_run(const char *arguments);

#endif
