/* resnet_model.h: the ResNet as the trainer knows it. */
#ifndef RESNET_TRAINER_MODEL_H
#define RESNET_TRAINER_MODEL_H

#include "trainer/model/trainer_model.h"

extern const trainer_model resnet_model;

#endif
