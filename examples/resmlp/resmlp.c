/* ResMLP (Touvron et al., arXiv 2105.03404), with the names of timm's resmlp_12_224:
 *
 *     x -> stem patch embedding
 *       -> depth blocks { x += ls1 * (W_t (affine1 x));  x += ls2 * fc2(gelu(fc1(affine2 x))) }
 *       -> affine -> mean over tokens -> head */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "resmlp_model.h"

static const char *const names[] = {
    "resmlp_s12", "resmlp_s24", "resmlp_s36", "resmlp_b24", "resmlp_tiny", NULL};

/* Sizes and initial values of the first four as in the authors' code, facebookresearch/deit. */
static const resmlp_arch archs[] = {
    {224, 16, 384, 12, 1536, 1000, 0.1, 0.02},
    {224, 16, 384, 24, 1536, 1000, 1e-5, 0.02},
    {224, 16, 384, 36, 1536, 1000, 1e-6, 0.02},
    {224, 8, 768, 24, 3072, 1000, 1e-6, 0.02},
    {32, 4, 128, 6, 512, 10, 0.1, 0},
};

void resmlp_build(const resmlp_arch *arch, clprune_net *net)
{
    const size_t side = arch->image / arch->patch;
    clprune_net_value x = clprune_net_images(net, 3, arch->image, arch->image);
    x = clprune_net_patch_embed(net, "stem.proj", x, arch->patch, arch->dim);
    for (size_t i = 0; i < arch->depth; ++i) {
        char part[32];
        (void)snprintf(part, sizeof part, "blocks.%zu", i);
        clprune_net_part(net, part);
        clprune_net_value t = clprune_net_affine(net, "norm1", x);
        t = clprune_net_linear_rows(net, "linear_tokens", t, side * side);
        x = clprune_net_layerscale(net, "ls1", x, t);
        t = clprune_net_affine(net, "norm2", x);
        t = clprune_net_linear(net, "mlp_channels.fc1", t, arch->hidden);
        t = clprune_net_gelu(net, "mlp_channels.act", t);
        t = clprune_net_linear(net, "mlp_channels.fc2", t, arch->dim);
        x = clprune_net_layerscale(net, "ls2", x, t);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_mean(net, "pool", clprune_net_affine(net, "norm", x));
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, arch->classes));
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    resmlp_arch arch = archs[sizes->arch];
    arch.image = sizes->image;
    arch.classes = sizes->classes;
    arch.patch = (size_t)sizes->extra[0];
    resmlp_build(&arch, net);
}

static double cut_normal(rng *r, double deviation)
{
    double x;
    do
        x = deviation * rng_normal(r);
    while (fabs(x) > 2.0);
    return x;
}

/* As in the authors' code, resmlp_models.py: weights normal with deviation 0.02, cut at +-2 (timm's
 * trunc_normal_), biases 0; the stem as PyTorch's Conv2d. 0.02 suits layers of 384 and more inputs.
 * The tiny model has fewer: with the deviation of PyTorch's Linear, 1 / sqrt(3 * inputs), it leaves
 * the first plateau of its loss several times earlier. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    const resmlp_arch *a = &archs[sizes->arch];
    const double inputs = (double)weight->inputs;
    const char *end = strrchr(weight->name, '.');
    if (strncmp(weight->name, "stem.", 5) == 0)
        return (2.0 * rng_uniform(r) - 1.0) / sqrt(inputs);
    if (strcmp(end, ".weight") == 0)
        return cut_normal(r, a->deviation > 0 ? a->deviation : 1 / sqrt(3 * inputs));
    if (strncmp(end, ".ls", 3) == 0)
        return a->scale;
    return strcmp(end, ".alpha") == 0 ? 1.0 : 0.0;
}

static const char *settle(trainer_sizes *sizes)
{
    const resmlp_arch *usual = &archs[sizes->arch];
    const size_t most = 1u << 20; /* keeps every product below 2^60 */
    net_model_usual(sizes, usual->image, usual->classes, usual->patch);
    const size_t patch = (size_t)sizes->extra[0];
    if (sizes->image > most || sizes->classes > most || patch > most)
        return "a size is above 2^20";
    if (sizes->image % patch != 0)
        return "the image size is not a multiple of the patch size";
    if ((sizes->image / patch) * (sizes->image / patch) > most)
        return "there are more than 2^20 tokens";
    return NULL;
}

static const trainer_extra extras[] = {{"patch-size", "patch_size", 1, 4096,
    "pixels per side of a patch; default: the architecture's"}};

/* The names that the authors' own code has. */
static const char *const renames[][2] = {{"stem.", "patch_embed."}, {".linear_tokens.", ".attn."},
    {".mlp_channels.", ".mlp."}, {".ls1", ".gamma_1"}, {".ls2", ".gamma_2"}, {NULL, NULL}};

const trainer_model resmlp_model = {
    .program = "resmlp-train",
    .about =
        "Trains a ResMLP on images, on any OpenCL device. The activations that the backward\n"
        "pass reads are kept dense, pruned in blocks (arXiv 2311.16883), or in part: the rest\n"
        "is recomputed.\n",
    .archs = names,
    .arch = 4, /* resmlp_tiny */
    .extras = extras,
    .extras_count = sizeof extras / sizeof *extras,
    .renames = renames,
    .settle = settle,
    .build = build,
    .draw = draw,
};
