/* resmlp_model.h: ResMLP as a net, and as the trainer sees it. */
#ifndef RESMLP_RESMLP_MODEL_H
#define RESMLP_RESMLP_MODEL_H

#include "trainer/model/net_model.h"

typedef struct resmlp_arch {
    size_t image, patch;       /* pixels per side, the first a multiple of the second */
    size_t dim, depth, hidden; /* features of a token, blocks, features between fc1 and fc2 */
    size_t classes;
    double scale;     /* LayerScale's initial value */
    double deviation; /* of the initial weights of linear layers; 0: 1 / sqrt(3 * inputs) */
} resmlp_arch;

/* Adds the layers and the loss. */
void resmlp_build(const resmlp_arch *arch, clprune_net *net);

extern const trainer_model resmlp_model;

#endif
