/* What linear and token linear share: how a layer keeps its input for the weight gradient. */
#ifndef CLPRUNE_NN_KEPT_INPUT_H
#define CLPRUNE_NN_KEPT_INPUT_H

#include "clprune/saved.h"

typedef struct clprune__kept_input {
    size_t rows, cols;   /* of one sample */
    clprune_block block; /* {0, 0} stands for {1, 16} until checked */
    float sparsity;      /* 0 keeps fp32 values dense */
    clprune_norm norm;
    clprune_criterion criterion;
    clprune_value_type value_type; /* narrow: BSR at any sparsity */
    clprune_index_type index_type; /* of the BSR */
} clprune__kept_input;

/* Fails on a sparsity outside [0, 1], a block of one zero side or an unknown norm, criterion, value
 * or index type; fills in the default block. */
clprune_status clprune__kept_input_check(clprune_context *context, clprune__kept_input *input);

/* The store for up to `batch` inputs. */
clprune_status clprune__kept_input_create(clprune_context *context,
    const clprune__kept_input *input, size_t batch, const char *name, clprune_saved **saved);

/* Fails unless `saved` holds rows x cols samples of this layer and has room for `batch`. */
clprune_status clprune__kept_input_check_saved(clprune_context *context,
    const clprune__kept_input *input, size_t batch, const clprune_saved *saved);

/* Fails where an output of a backward pass meets an input or another output; absent ones do not.
 * Checked before anything is enqueued, so that a refused call leaves every output as it was. */
clprune_status clprune__check_gradients_apart(clprune_context *context, clprune_mat dy,
    clprune_mat w, clprune_mat dx, clprune_mat dw, clprune_mat db);

#endif
