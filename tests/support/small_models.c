#include "support/small_models.h"

#include "resmlp_model.h"
#include "resnet_model.h"

/* ---- a ResMLP of two blocks --------------------------------------------------------------------
 */

static void build_resmlp(const trainer_sizes *sizes, clprune_net *net)
{
    const resmlp_arch arch = {.image = sizes->image,
        .patch = (size_t)sizes->extra[0],
        .dim = 16,
        .depth = 2,
        .hidden = 32,
        .classes = sizes->classes};
    resmlp_build(&arch, net);
}

const trainer_model *small_resmlp(void)
{
    static trainer_model small;
    small = resmlp_model;
    small.build = build_resmlp;
    return &small;
}

/* ---- a ResNet of two blocks --------------------------------------------------------------------
 */

static void build_resnet(const trainer_sizes *sizes, clprune_net *net)
{
    const resnet_arch arch = {.image = sizes->image,
        .classes = sizes->classes,
        .stages = 2,
        .blocks = {1, 1},
        .channels = {8, 8}};
    resnet_build(&arch, net);
}

const trainer_model *small_resnet(void)
{
    static trainer_model small;
    small = resnet_model;
    small.build = build_resnet;
    return &small;
}
