/* What the trainer calls and model.h does not have. */
#include "resmlp_model.h"

#include <stdlib.h>

#include "model.h"

static const trainer_extra extras[] = {
    {"patch-size", "patch_size", 1, 4096,
        "pixels per side of a patch; default: the architecture's"},
};

static const char *settle(trainer_sizes *sizes)
{
    const resmlp_arch usual = resmlp_arch_at(sizes->arch);
    if (sizes->image == 0)
        sizes->image = usual.image;
    if (sizes->classes == 0)
        sizes->classes = usual.classes;
    if (sizes->extra[0] == 0)
        sizes->extra[0] = usual.patch;
    const resmlp_arch arch = resmlp_arch_of(sizes);
    const char *wrong = resmlp_arch_check(&arch);
    if (wrong != NULL)
        return wrong;
    sizes->blocks = arch.depth;
    sizes->parameters = resmlp_arch_parameters(&arch);
    sizes->fixed = arch.dim + arch.classes; /* the head's input, the logarithm of the softmax */
    return NULL;
}

static clprune_status create(clprune_context *context, const trainer_sizes *sizes,
    const keep_rule *rules, size_t batch, void **model)
{
    const resmlp_arch arch = resmlp_arch_of(sizes);
    resmlp *made = malloc(sizeof *made);
    if (made == NULL)
        return trainer_made(CLPRUNE_OUT_OF_HOST_MEMORY, NULL, model);
    return trainer_made(resmlp_create(context, &arch, rules, batch, made), made, model);
}

static void destroy(void *model)
{
    if (model != NULL)
        resmlp_destroy(model);
    free(model);
}

static clprune_param *params(void *model, size_t *count)
{
    resmlp *m = model;
    *count = m->tensors;
    return m->params;
}

static bool weight(void *model, size_t index, trainer_weight *weight)
{
    const resmlp *m = model;
    const model_tensors all = resmlp_arch_all(&m->arch);
    return model_params_weight(&all, m->params, NULL, 0, index, weight);
}

/* The names that the authors' own code has. */
static const char *const renames[][2] = {{"stem.", "patch_embed."}, {".linear_tokens.", ".attn."},
    {".mlp_channels.", ".mlp."}, {".ls1", ".gamma_1"}, {".ls2", ".gamma_2"}, {NULL, NULL}};

static void watch(void *model, trainer_watcher watcher)
{
    ((resmlp *)model)->watcher = watcher;
}

const trainer_model resmlp_model = {
    .program = "resmlp-train",
    .about =
        "Trains a ResMLP on images, on any OpenCL device. The activations that the backward\n"
        "pass reads are kept dense, pruned in blocks (arXiv 2311.16883), or in part: the rest\n"
        "is recomputed.\n",
    .archs = resmlp_arch_names,
    .arch = 4, /* resmlp_tiny */
    .extras = extras,
    .extras_count = sizeof extras / sizeof *extras,
    .keep = &resmlp_keep,
    .settle = settle,
    .create = create,
    .destroy = destroy,
    .init = resmlp_init,
    .params = params,
    .weight = weight,
    .renames = renames,
    .set_seed = resmlp_set_seed,
    .forward = resmlp_forward,
    .loss = resmlp_loss,
    .backward = resmlp_backward,
    .watch = watch,
};
