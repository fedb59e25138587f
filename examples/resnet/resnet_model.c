/* What the trainer calls and resnet.h does not have. */
#include "resnet_model.h"

#include <stdlib.h>

#include "resnet.h"

static const char *settle(trainer_sizes *sizes)
{
    const resnet_arch usual = resnet_arch_at(sizes->arch);
    if (sizes->image == 0)
        sizes->image = usual.image;
    if (sizes->classes == 0)
        sizes->classes = usual.classes;
    const resnet_arch arch = resnet_arch_of(sizes);
    const char *wrong = resnet_arch_check(&arch);
    if (wrong != NULL)
        return wrong;
    const size_t side = resnet_arch_first_side(&arch), features = arch.channels[arch.stages - 1];
    sizes->blocks = resnet_arch_blocks(&arch);
    sizes->parameters = resnet_arch_parameters(&arch);
    /* the head's input, the logarithm of the softmax, the positions of the max pool */
    sizes->fixed = features + arch.classes + (arch.pools ? side * side * arch.channels[0] / 8 : 0);
    return NULL;
}

static clprune_status create(clprune_context *context, const trainer_sizes *sizes,
    const keep_rule *rules, size_t batch, void **model)
{
    const resnet_arch arch = resnet_arch_of(sizes);
    resnet *made = malloc(sizeof *made);
    if (made == NULL)
        return trainer_made(CLPRUNE_OUT_OF_HOST_MEMORY, NULL, model);
    return trainer_made(resnet_create(context, &arch, rules, batch, made), made, model);
}

static void destroy(void *model)
{
    if (model != NULL)
        resnet_destroy(model);
    free(model);
}

static clprune_param *params(void *model, size_t *count)
{
    resnet *m = model;
    *count = m->tensors;
    return m->params;
}

static const trainer_state *states(void *model, size_t *count)
{
    resnet *m = model;
    *count = 2 * m->parts_count;
    return m->states;
}

static const trainer_count *counts(void *model, size_t *count)
{
    resnet *m = model;
    *count = m->parts_count;
    return m->counts;
}

/* Parameters, then running statistics; the names are torchvision's. */
static bool weight(void *model, size_t index, trainer_weight *weight)
{
    const resnet *m = model;
    const model_tensors all = resnet_arch_all(&m->arch);
    return model_params_weight(&all, m->params, m->states, 2 * m->parts_count, index, weight);
}

static void watch(void *model, trainer_watcher watcher)
{
    ((resnet *)model)->watcher = watcher;
}

const trainer_model resnet_model = {
    .program = "resnet-train",
    .about =
        "Trains a ResNet on images, on any OpenCL device. The activations that the backward pass\n"
        "reads are kept dense, pruned in blocks, as means of cells of pixels (arXiv 2409.11902),\n"
        "as codes, or in part: the rest is recomputed.\n",
    .archs = resnet_arch_names,
    .arch = 3, /* resnet20 */
    .keep = &resnet_keep_table,
    .settle = settle,
    .create = create,
    .destroy = destroy,
    .init = resnet_init,
    .params = params,
    .states = states,
    .counts = counts,
    .weight = weight,
    .set_seed = resnet_set_seed,
    .forward = resnet_forward,
    .loss = resnet_loss,
    .backward = resnet_backward,
    .watch = watch,
};
