/* DenseNets (Huang et al., arXiv 1608.06993), with torchvision's names:
 *
 *     x -> stem: conv, batch norm, ReLU (, max pool)
 *       -> blocks { layers { x = concat(x, conv2(relu(norm2(conv1(relu(norm1(x))))))) } },
 *          between them transitions { conv of 1 x 1 to half the channels; mean of 2 x 2 pixels }
 *       -> batch norm, ReLU -> mean over the pixels -> classifier
 *
 * A layer adds `growth` channels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/model/net_model.h"

enum { BLOCKS = 4, SIDE = 4096 }; /* the largest image */

typedef struct densenet_arch {
    size_t image, classes;
    bool pools; /* the stem: 7 x 7 by 2 and a max pool by 2; else 3 x 3 */
    size_t growth, channels, layers[BLOCKS];
} densenet_arch;

static const char *const names[] = {
    "densenet121", "densenet169", "densenet201", "densenet_cifar", "densenet_micro", NULL};
static const densenet_arch archs[] = {
    {224, 1000, true, 32, 64, {6, 12, 24, 16}},
    {224, 1000, true, 32, 64, {6, 12, 32, 32}},
    {224, 1000, true, 32, 64, {6, 12, 48, 32}},
    {32, 10, false, 12, 24, {16, 16, 16}}, /* DenseNet-BC of 100 layers */
    {32, 10, true, 12, 24, {2, 2, 2}},
};

static clprune_net_value convolve(clprune_net *net, const char *norm, const char *relu,
    const char *name, clprune_net_value x, size_t out, size_t kernel)
{
    const clprune_net_conv conv = {
        .out = out, .kernel = {kernel, kernel}, .padding = {kernel / 2, kernel / 2}};
    x = clprune_net_relu(net, relu, clprune_net_batch_norm(net, norm, x));
    return clprune_net_conv2d(net, name, x, &conv);
}

/* Means of 2 x 2 pixels; an odd last one is left out. */
static clprune_net_value halve(clprune_net *net, clprune_net_value x, size_t pixels)
{
    uint32_t first[SIDE / 2 + 1] = {0}, from[SIDE];
    float weight[SIDE];
    for (uint32_t i = 0; i < pixels / 2 * 2; ++i) {
        from[i] = i;
        weight[i] = 0.5f;
        first[i / 2 + 1] = i + 1;
    }
    const clprune_net_axis axis = {pixels / 2, first, from, weight};
    return clprune_net_resample(net, "pool", x, &axis, &axis);
}

static clprune_net_value stem(
    clprune_net *net, const densenet_arch *a, clprune_net_value x, size_t *pixels)
{
    const size_t kernel = a->pools ? 7 : 3, stride = a->pools ? 2 : 1;
    const clprune_max_pool_desc pool = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
    const clprune_net_conv conv = {.out = a->channels,
        .kernel = {kernel, kernel},
        .stride = {stride, stride},
        .padding = {kernel / 2, kernel / 2}};
    clprune_net_part(net, "features");
    x = clprune_net_batch_norm(net, "norm0", clprune_net_conv2d(net, "conv0", x, &conv));
    x = clprune_net_relu(net, "relu0", x);
    if (!a->pools)
        return x;
    *pixels = ((*pixels + 1) / 2 + 1) / 2;
    return clprune_net_max_pool(net, "pool0", x, &pool);
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const densenet_arch *a = &archs[sizes->arch];
    size_t channels = a->channels, pixels = sizes->image;
    clprune_net_value x = clprune_net_images(net, 3, pixels, pixels);
    x = stem(net, a, x, &pixels);
    for (size_t b = 0; b < BLOCKS && a->layers[b] > 0; ++b) {
        char part[64];
        if (b > 0) {
            (void)snprintf(part, sizeof part, "features.transition%zu", b);
            clprune_net_part(net, part);
            channels /= 2;
            x = halve(net, convolve(net, "norm", "relu", "conv", x, channels, 1), pixels);
            pixels /= 2;
        }
        for (size_t i = 0; i < a->layers[b]; ++i, channels += a->growth) {
            (void)snprintf(part, sizeof part, "features.denseblock%zu.denselayer%zu", b + 1, i + 1);
            clprune_net_part(net, part);
            clprune_net_value y = convolve(net, "norm1", "relu1", "conv1", x, 4 * a->growth, 1);
            y = convolve(net, "norm2", "relu2", "conv2", y, a->growth, 3);
            x = clprune_net_concat(net, "concat", x, y, CLPRUNE_AXIS_FEATURES);
        }
    }
    clprune_net_part(net, "features");
    x = clprune_net_relu(net, "relu5", clprune_net_batch_norm(net, "norm5", x));
    clprune_net_part(net, NULL);
    x = clprune_net_mean(net, "pool", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "classifier", x, sizes->classes));
}

/* As torchvision: convolutions normal with deviation sqrt(2 / (inputs * taps)); batch norms 1 and
 * 0; the classifier as PyTorch's Linear, its bias 0. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (weight->rank == 4)
        return sqrt(2.0 / (double)weight->inputs) * rng_normal(r);
    if (weight->rank == 2)
        return (2.0 * rng_uniform(r) - 1.0) / sqrt((double)weight->inputs);
    return weight->inputs == 0 && strstr(weight->name, ".weight") != NULL ? 1 : 0;
}

static const char *settle(trainer_sizes *sizes)
{
    const densenet_arch *a = &archs[sizes->arch];
    size_t least = 1;
    for (size_t b = 1; b < BLOCKS && a->layers[b] > 0; ++b)
        least *= 2;
    net_model_usual(sizes, a->image, a->classes, 0);
    if (sizes->image > SIDE || sizes->image < (a->pools ? 4 * least - 3 : least))
        return least == 8 ? "the image size must be from 29 to 4096"
               : a->pools ? "the image size must be from 13 to 4096"
                          : "the image size must be from 4 to 4096";
    return net_model_check_classes(sizes);
}

extern const trainer_model densenet_model;
const trainer_model densenet_model = {
    .program = "densenet-train",
    .about =
        "Trains a DenseNet on images, on any OpenCL device. The activations that the backward\n"
        "pass reads are kept dense, pruned in blocks, as codes, or in part: the rest is\n"
        "recomputed.\n",
    .archs = names,
    .arch = 4, /* densenet_micro */
    .settle = settle,
    .build = build,
    .draw = draw,
};
