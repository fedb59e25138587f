/* linear_model.h: a model for the trainer that is not one of the examples': logits = batch norm of
 * images W^T. The running statistics are state: a run that loses it has other tests. */
#ifndef TEST_LINEAR_MODEL_H
#define TEST_LINEAR_MODEL_H

#include "trainer/model/net_model.h"

/* The model; with a layer norm in the batch norm's place, so without state and count. */
extern const trainer_model linear_with_state, linear_without_state;

/* Names of W and of the mean in checkpoints, and the record of the count. */
#define LINEAR_W     "param/embed.weight"
#define LINEAR_MEAN  "model/norm.running_mean"
#define LINEAR_COUNT "count/norm.num_batches_tracked"

/* Arguments of a short run. */
#define LINEAR_SMALL "--train-limit 24 --test-limit 12 --batch-size 8 --optimizer sgd --lr 0.1 "

#endif
