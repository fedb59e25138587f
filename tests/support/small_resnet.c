#include <stdlib.h>

#include "resnet.h"
#include "resnet_model.h"
#include "support/small_models.h"

enum { BLOCKS = 2 };

static const char *settle(trainer_sizes *sizes)
{
    const char *wrong = resnet_model.settle(sizes);
    sizes->blocks = BLOCKS;
    return wrong;
}

static clprune_status create(clprune_context *context, const trainer_sizes *sizes,
    const keep_rule *rules, size_t batch, void **model)
{
    const resnet_arch arch = {.image = sizes->image,
        .classes = sizes->classes,
        .stages = BLOCKS,
        .blocks = {1, 1},
        .channels = {8, 8}};
    *model = NULL;
    resnet *made = malloc(sizeof *made);
    if (made == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    const clprune_status status = resnet_create(context, &arch, rules, batch, made);
    if (status == CLPRUNE_SUCCESS)
        *model = made;
    else
        free(made);
    return status;
}

const trainer_model *small_resnet(void)
{
    static trainer_model small;
    small = resnet_model;
    small.settle = settle;
    small.create = create;
    return &small;
}
