/* resmlp_model.h: the ResMLP as the trainer sees it. */
#ifndef RESMLP_RESMLP_MODEL_H
#define RESMLP_RESMLP_MODEL_H

#include "trainer/model/trainer_model.h"

extern const trainer_model resmlp_model;

#endif
