/* small_models.h: the models of the trainer, with few parameters: their checkpoints are small. */
#ifndef TEST_SMALL_MODELS_H
#define TEST_SMALL_MODELS_H

#include "trainer/model/trainer_model.h"

const trainer_model *small_resmlp(void); /* 16 features, 2 blocks, 32 hidden ones */
const trainer_model *small_resnet(void); /* 8 channels, 2 blocks, the second one of stride 2 */

#endif
