/* ConvNeXt (Liu et al., arXiv 2201.03545), with timm's names:
 *
 *     x -> stem (patch embedding, norm)
 *       -> stages { from the second on: downsample (norm, convolution by 2);
 *                   blocks { x += gamma * fc2(gelu(fc1(norm(7 x 7 depthwise convolution(x))))) } }
 *       -> mean over pixels -> head.norm -> head.fc
 *
 * Norms are over the features of a pixel. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/model/net_model.h"

enum { STAGES = 4 };

typedef struct convnext_arch {
    size_t image, patch, depths[STAGES], dims[STAGES], classes;
} convnext_arch;

static const char *const names[] = {"convnext_atto", "convnext_tiny", "convnext_small",
    "convnext_base", "convnext_cifar", "convnext_micro", NULL};
static const convnext_arch archs[] = {
    {224, 4, {2, 2, 6, 2}, {40, 80, 160, 320}, 1000},
    {224, 4, {3, 3, 9, 3}, {96, 192, 384, 768}, 1000},
    {224, 4, {3, 3, 27, 3}, {96, 192, 384, 768}, 1000},
    {224, 4, {3, 3, 27, 3}, {128, 256, 512, 1024}, 1000},
    {32, 2, {2, 2, 6, 2}, {48, 96, 192, 384}, 10},
    {32, 2, {1, 1, 2, 1}, {32, 64, 96, 128}, 10},
};

static clprune_net_value add_block(clprune_net *net, clprune_net_value x, size_t dim)
{
    const clprune_net_conv depthwise = {
        .out = dim, .kernel = {7, 7}, .padding = {3, 3}, .groups = dim, .bias = true};
    clprune_net_value t = clprune_net_conv2d(net, "conv_dw", x, &depthwise);
    t = clprune_net_linear(net, "mlp.fc1", clprune_net_layer_norm(net, "norm", t), 4 * dim);
    t = clprune_net_linear(net, "mlp.fc2", clprune_net_gelu(net, "mlp.act", t), dim);
    return clprune_net_layerscale(net, "gamma", x, t);
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const convnext_arch *a = &archs[sizes->arch];
    clprune_net_eps(net, 1e-6f);
    clprune_net_value x = clprune_net_images(net, 3, sizes->image, sizes->image);
    x = clprune_net_patch_embed(net, "stem.0", x, a->patch, a->dims[0]);
    x = clprune_net_layer_norm(net, "stem.1", x);
    for (size_t i = 0; i < STAGES; ++i) {
        char part[48];
        (void)snprintf(part, sizeof part, "stages.%zu", i);
        clprune_net_part(net, part);
        if (i > 0) {
            const clprune_net_conv halve = {
                .out = a->dims[i], .kernel = {2, 2}, .stride = {2, 2}, .bias = true};
            x = clprune_net_layer_norm(net, "downsample.0", x);
            x = clprune_net_conv2d(net, "downsample.1", x, &halve);
        }
        for (size_t k = 0; k < a->depths[i]; ++k) {
            (void)snprintf(part, sizeof part, "stages.%zu.blocks.%zu", i, k);
            clprune_net_part(net, part);
            x = add_block(net, x, a->dims[i]);
        }
    }
    clprune_net_part(net, NULL);
    x = clprune_net_layer_norm(net, "head.norm", clprune_net_mean(net, "pool", x));
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head.fc", x, sizes->classes));
}

/* As timm: weights normal with deviation 0.02, biases 0, gamma 1e-6. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (weight->rank > 1)
        return 0.02 * rng_normal(r);
    if (strstr(weight->name, "gamma") != NULL)
        return 1e-6;
    return weight->inputs == 0 && strstr(weight->name, ".weight") != NULL ? 1 : 0;
}

static const char *settle(trainer_sizes *sizes)
{
    const convnext_arch *a = &archs[sizes->arch];
    net_model_usual(sizes, a->image, a->classes, 0);
    const size_t pixels = a->patch << (STAGES - 1);
    if (sizes->image > 1 << 12 || sizes->image < pixels || sizes->image % a->patch != 0)
        return "the image size must be a multiple of the architecture's patches, from one pixel of "
               "its last stage to 4096";
    return net_model_check_classes(sizes);
}

static const char *const defaults[][2] = {
    {"lr", "0.001"}, {"weight-decay", "0.05"}, {"clip-norm", "1"}, {NULL, NULL}};

extern const trainer_model convnext_model;
const trainer_model convnext_model = {
    .program = "convnext-train",
    .about =
        "Trains a ConvNeXt on images, on any OpenCL device. The activations that the backward\n"
        "pass reads are kept dense, pruned in blocks, as codes, or in part: the rest is\n"
        "recomputed.\n",
    .archs = names,
    .arch = 5, /* convnext_micro */
    .defaults = defaults,
    .settle = settle,
    .build = build,
    .draw = draw,
};
