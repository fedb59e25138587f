/* model_params.h: what models do alike with their parameters: describe, create, initialise, list
 * for files of other programs. */
#ifndef TRAINER_MODEL_PARAMS_H
#define TRAINER_MODEL_PARAMS_H

#include "trainer/data/rng.h"
#include "trainer/model/trainer_model.h"

/* A parameter of an architecture, named and shaped as in other programs (trainer_weight). */
typedef struct model_tensor {
    char name[64];
    int kind; /* the model's own */
    size_t rank, shape[4];
    size_t rows, cols; /* as a matrix: shape[0] x the rest; a vector is 1 x n */
    bool channels_last, head;
} model_tensor;

/* A tensor called prefix + name; sizes behind `rank` are 1. */
model_tensor model_tensor_of(
    const char *prefix, const char *name, int kind, size_t rank, const size_t shape[4]);

/* All parameters of an architecture. */
typedef struct model_tensors {
    const void *arch;
    size_t count;
    model_tensor (*at)(const void *arch, size_t index);
    double (*draw)(rng *r, const void *arch, const model_tensor *tensor); /* an initial value */
} model_tensors;

/* Elements of all tensors. */
uint64_t model_params_elements(const model_tensors *tensors);

/* Makes values and gradients, one buffer each: the optimizer updates all of them in one launch.
 * Weights of two and four dimensions decay: neither biases nor scales. *names is what the params'
 * names point into. On failure the caller still releases. */
clprune_status model_params_create(
    clprune_context *context, const model_tensors *tensors, clprune_param **params, char **names);
void model_params_release(clprune_context *context, clprune_param *params, char *names);

/* Writes initial values: the same for the same seed on any device. Blocking. */
clprune_status model_params_init(clprune_context *context, const model_tensors *tensors,
    const clprune_param *params, uint64_t seed);

/* trainer_model.weight: the parameters, then `states` of them, all vectors. */
bool model_params_weight(const model_tensors *tensors, const clprune_param *params,
    const trainer_state *state, size_t states, size_t index, trainer_weight *weight);

#endif
