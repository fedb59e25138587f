/* resnet_model.h: ResNets as a net, and as the trainer sees them. */
#ifndef RESNET_RESNET_MODEL_H
#define RESNET_RESNET_MODEL_H

#include "trainer/model/net_model.h"

typedef struct resnet_arch {
    size_t image, classes;
    bool pools; /* the stem has a stride and a max pool */
    size_t stages, blocks[4], channels[4];
    bool bottleneck;
} resnet_arch;

/* Adds the layers and the loss. */
void resnet_build(const resnet_arch *arch, clprune_net *net);

extern const trainer_model resnet_model;

#endif
