#include "support/small_models.h"

#include <stdlib.h>

#include "model.h"
#include "resmlp_model.h"
#include "resnet.h"
#include "resnet_model.h"

enum { BLOCKS = 2 };

static const char *settle_resmlp(trainer_sizes *sizes)
{
    const char *wrong = resmlp_model.settle(sizes);
    sizes->blocks = BLOCKS;
    return wrong;
}

static clprune_status create_resmlp(clprune_context *context, const trainer_sizes *sizes,
    const keep_rule *rules, size_t batch, void **model)
{
    resmlp_arch arch = resmlp_arch_of(sizes);
    arch.dim = 16;
    arch.depth = BLOCKS;
    arch.hidden = 32;
    resmlp *made = malloc(sizeof *made);
    if (made == NULL)
        return trainer_made(CLPRUNE_OUT_OF_HOST_MEMORY, NULL, model);
    return trainer_made(resmlp_create(context, &arch, rules, batch, made), made, model);
}

static const char *settle_resnet(trainer_sizes *sizes)
{
    const char *wrong = resnet_model.settle(sizes);
    sizes->blocks = BLOCKS;
    return wrong;
}

static clprune_status create_resnet(clprune_context *context, const trainer_sizes *sizes,
    const keep_rule *rules, size_t batch, void **model)
{
    const resnet_arch arch = {.image = sizes->image,
        .classes = sizes->classes,
        .stages = BLOCKS,
        .blocks = {1, 1},
        .channels = {8, 8}};
    resnet *made = malloc(sizeof *made);
    if (made == NULL)
        return trainer_made(CLPRUNE_OUT_OF_HOST_MEMORY, NULL, model);
    return trainer_made(resnet_create(context, &arch, rules, batch, made), made, model);
}

const trainer_model *small_resmlp(void)
{
    static trainer_model small;
    small = resmlp_model;
    small.settle = settle_resmlp;
    small.create = create_resmlp;
    return &small;
}

const trainer_model *small_resnet(void)
{
    static trainer_model small;
    small = resnet_model;
    small.settle = settle_resnet;
    small.create = create_resnet;
    return &small;
}
