/* MLP-Mixer (Tolstikhin et al., arXiv 2105.01601), with the names of timm's mixer_s16_224:
 *
 *     x -> stem patch embedding
 *       -> depth blocks { x += fc2(gelu(fc1(norm1 x))) over tokens;  x += fc2(gelu(fc1(norm2 x))) }
 *       -> norm -> mean over tokens -> head */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/model/net_model.h"

typedef struct mixer_arch {
    size_t image, patch, dim, depth, tokens, channels, classes;
} mixer_arch;

static const char *const names[] = {"mixer_s16", "mixer_b16", "mixer_tiny", NULL};
static const mixer_arch archs[] = {
    {224, 16, 512, 8, 256, 2048, 1000},
    {224, 16, 768, 12, 384, 3072, 1000},
    {32, 4, 128, 6, 64, 512, 10},
};

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const mixer_arch *a = &archs[sizes->arch];
    const size_t patch = (size_t)sizes->extra[0], side = sizes->image / patch;
    clprune_net_eps(net, 1e-6f);
    clprune_net_value x = clprune_net_images(net, 3, sizes->image, sizes->image);
    x = clprune_net_patch_embed(net, "stem.proj", x, patch, a->dim);
    for (size_t i = 0; i < a->depth; ++i) {
        char part[32];
        (void)snprintf(part, sizeof part, "blocks.%zu", i);
        clprune_net_part(net, part);
        clprune_net_value t = clprune_net_layer_norm(net, "norm1", x);
        t = clprune_net_linear_rows(net, "mlp_tokens.fc1", t, a->tokens);
        t = clprune_net_gelu(net, "mlp_tokens.act", t);
        t = clprune_net_linear_rows(net, "mlp_tokens.fc2", t, side * side);
        x = clprune_net_add(net, "sum1", x, t);
        t = clprune_net_layer_norm(net, "norm2", x);
        t = clprune_net_linear(net, "mlp_channels.fc1", t, a->channels);
        t = clprune_net_gelu(net, "mlp_channels.act", t);
        t = clprune_net_linear(net, "mlp_channels.fc2", t, a->dim);
        x = clprune_net_add(net, "sum2", x, t);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_mean(net, "pool", clprune_net_layer_norm(net, "norm", x));
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, sizes->classes));
}

/* As timm: linear layers uniform with deviation sqrt(2 / (inputs + outputs)) (Xavier), the head 0,
 * biases of blocks with deviation 1e-6, the stem normal with deviation 1 / sqrt(inputs). */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    const bool matrix = weight->rank > 1;
    if (weight->inputs == 0)
        return strstr(weight->name, ".weight") != NULL ? 1 : 0;
    if (strncmp(weight->name, "stem.", 5) == 0)
        return matrix ? rng_normal(r) / sqrt((double)weight->inputs) : 0;
    if (strncmp(weight->name, "head.", 5) == 0)
        return 0;
    if (!matrix)
        return 1e-6 * rng_normal(r);
    return sqrt(6.0 / (double)(weight->shape[0] + weight->inputs)) * (2.0 * rng_uniform(r) - 1.0);
}

static const char *settle(trainer_sizes *sizes)
{
    const mixer_arch *usual = &archs[sizes->arch];
    net_model_usual(sizes, usual->image, usual->classes, usual->patch);
    if (sizes->image > 1 << 12 || sizes->classes > 1 << 20)
        return "the image size must be from 1 to 4096, with up to 2^20 classes";
    if (sizes->image % sizes->extra[0] != 0)
        return "the image size is not a multiple of the patch size";
    return NULL;
}

static const trainer_extra extras[] = {{"patch-size", "patch_size", 1, 4096,
    "pixels per side of a patch; default: the architecture's"}};

extern const trainer_model mixer_model;
const trainer_model mixer_model = {
    .program = "mixer-train",
    .about =
        "Trains an MLP-Mixer on images, on any OpenCL device. The activations that the backward\n"
        "pass reads are kept dense, pruned in blocks, as codes, or in part: the rest is\n"
        "recomputed.\n",
    .archs = names,
    .arch = 2, /* mixer_tiny */
    .extras = extras,
    .extras_count = sizeof extras / sizeof *extras,
    .settle = settle,
    .build = build,
    .draw = draw,
};
