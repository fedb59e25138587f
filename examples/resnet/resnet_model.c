/* The functions that the trainer calls, each a call of resnet.h. */
#include "resnet_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    clprune_status status = CLPRUNE_OUT_OF_HOST_MEMORY;
    resnet *made = malloc(sizeof *made);
    *model = NULL;
    if (made == NULL)
        return status;
    status = resnet_create(context, &arch, rules, batch, made);
    if (status == CLPRUNE_SUCCESS)
        *model = made;
    else
        free(made);
    return status;
}

static void destroy(void *model)
{
    if (model != NULL)
        resnet_destroy(model);
    free(model);
}

static clprune_status init(void *model, uint64_t seed)
{
    return resnet_init(model, seed);
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
    if (index >= m->tensors + 2 * m->parts_count)
        return false;
    *weight = (trainer_weight){0};
    if (index >= m->tensors) {
        const trainer_state *state = &m->states[index - m->tensors];
        (void)snprintf(weight->name, sizeof weight->name, "%s", state->name);
        weight->mat = state->mat;
        weight->rank = 1;
        weight->shape[0] = state->mat.cols;
        return true;
    }
    const resnet_tensor tensor = resnet_arch_tensor(&m->arch, index);
    (void)snprintf(weight->name, sizeof weight->name, "%s", tensor.name);
    weight->mat = m->params[index].value;
    weight->head = tensor.kind == RESNET_HEAD_WEIGHT || tensor.kind == RESNET_HEAD_BIAS;
    weight->channels_last = tensor.kind == RESNET_CONV_WEIGHT;
    if (weight->channels_last) {
        const resnet_unit *unit = &m->parts[index / 3].unit;
        const size_t shape[4] = {unit->out, unit->in, unit->kernel, unit->kernel};
        memcpy(weight->shape, shape, sizeof shape);
        weight->rank = 4;
    } else {
        const bool matrix = tensor.kind == RESNET_HEAD_WEIGHT;
        weight->rank = matrix ? 2 : 1;
        weight->shape[0] = matrix ? tensor.rows : tensor.cols;
        weight->shape[1] = matrix ? tensor.cols : 0;
    }
    return true;
}

static void set_seed(void *model, uint64_t seed)
{
    resnet_set_seed(model, seed);
}

static clprune_status forward(void *model, size_t batch, clprune_image_bytes images, bool training)
{
    return resnet_forward(model, batch, images, training);
}

static clprune_status loss(
    void *model, size_t batch, cl_mem labels, float smoothing, clprune_mat losses, clprune_mat hit)
{
    return resnet_loss(model, batch, labels, smoothing, losses, hit);
}

static clprune_status backward(
    void *model, size_t batch, clprune_image_bytes images, cl_mem labels, float smoothing)
{
    return resnet_backward(model, batch, images, labels, smoothing);
}

static void watch(void *model, trainer_watch_fn *told, void *user)
{
    resnet *m = model;
    m->watch = told;
    m->watch_user = user;
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
    .init = init,
    .params = params,
    .states = states,
    .counts = counts,
    .weight = weight,
    .set_seed = set_seed,
    .forward = forward,
    .loss = loss,
    .backward = backward,
    .watch = watch,
};
