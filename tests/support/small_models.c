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

static net_model_parts small_resmlp_parts;

static const char *settle_resmlp(trainer_sizes *sizes)
{
    const char *wrong = resmlp_model.settle(sizes);
    return wrong != NULL ? wrong : net_model_settle(&small_resmlp_parts, sizes);
}

static clprune_status create_resmlp(clprune_context *context, const trainer_sizes *sizes,
    const keep_choice *choice, size_t batch, void **model)
{
    return net_model_create(&small_resmlp_parts, context, sizes, choice, batch, model);
}

const trainer_model *small_resmlp(void)
{
    static trainer_model small;
    small_resmlp_parts = resmlp_parts;
    small_resmlp_parts.build = build_resmlp;
    small = resmlp_model;
    small.settle = settle_resmlp;
    small.create = create_resmlp;
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

static net_model_parts small_resnet_parts;

static const char *settle_resnet(trainer_sizes *sizes)
{
    const char *wrong = resnet_model.settle(sizes);
    return wrong != NULL ? wrong : net_model_settle(&small_resnet_parts, sizes);
}

static clprune_status create_resnet(clprune_context *context, const trainer_sizes *sizes,
    const keep_choice *choice, size_t batch, void **model)
{
    return net_model_create(&small_resnet_parts, context, sizes, choice, batch, model);
}

const trainer_model *small_resnet(void)
{
    static trainer_model small;
    small_resnet_parts = resnet_parts;
    small_resnet_parts.build = build_resnet;
    small = resnet_model;
    small.settle = settle_resnet;
    small.create = create_resnet;
    return &small;
}
