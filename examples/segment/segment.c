/* U-Nets (Ronneberger et al., arXiv 1505.04597) that give each pixel a class, with the names of
 * Milesi's Pytorch-UNet:
 *
 *     x -> inc -> down1 ... downN { max pool by 2, two convolutions }
 *       -> up1 ... upN { transposed convolution by 2, behind the features of the way down of the
 *                        same size; two convolutions }
 *       -> outc
 *
 * Two convolutions are of 3 x 3, each with batch norm and ReLU. Features double on the way down. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/model/net_model.h"

enum { LEVELS = 4 };

typedef struct unet_arch {
    size_t image, classes, features, levels;
} unet_arch;

static const char *const names[] = {"unet", "unet_small", "unet_micro", NULL};
static const unet_arch archs[] = {
    {256, 2, 64, 4},
    {128, 2, 16, 4},
    {32, 6, 8, 2},
};

static clprune_net_value twice(clprune_net *net, clprune_net_value x, size_t out)
{
    const clprune_net_conv conv = {.out = out, .kernel = {3, 3}, .padding = {1, 1}};
    x = clprune_net_batch_norm(net, "1", clprune_net_conv2d(net, "0", x, &conv));
    x = clprune_net_conv2d(net, "3", clprune_net_relu(net, "2", x), &conv);
    return clprune_net_relu(net, "5", clprune_net_batch_norm(net, "4", x));
}

static void begin(clprune_net *net, const char *way, size_t level, const char *rest)
{
    char part[64];
    (void)snprintf(part, sizeof part, "%s%zu%s", way, level, rest);
    clprune_net_part(net, part);
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const unet_arch *a = &archs[sizes->arch];
    const clprune_max_pool_desc pool = {.kernel = {2, 2}};
    const clprune_net_conv last = {.out = sizes->classes, .kernel = {1, 1}, .bias = true};
    clprune_net_value ways[LEVELS + 1];
    clprune_net_value x = clprune_net_images(net, 3, sizes->image, sizes->image);
    clprune_net_part(net, "inc.double_conv");
    ways[0] = twice(net, x, a->features);
    for (size_t i = 1; i <= a->levels; ++i) {
        begin(net, "down", i, ".maxpool_conv");
        x = clprune_net_max_pool(net, "0", ways[i - 1], &pool);
        begin(net, "down", i, ".maxpool_conv.1.double_conv");
        ways[i] = twice(net, x, a->features << i);
    }
    x = ways[a->levels];
    for (size_t i = 1; i <= a->levels; ++i) {
        const size_t out = a->features << (a->levels - i);
        const clprune_net_conv up = {.out = out, .kernel = {2, 2}, .stride = {2, 2}, .bias = true};
        begin(net, "up", i, "");
        x = clprune_net_conv_transpose2d(net, "up", x, &up);
        x = clprune_net_concat(net, "skip", ways[a->levels - i], x, CLPRUNE_AXIS_FEATURES);
        begin(net, "up", i, ".conv.double_conv");
        x = twice(net, x, out);
    }
    clprune_net_part(net, NULL);
    clprune_net_cross_entropy(net, clprune_net_conv2d(net, "outc.conv", x, &last));
}

/* As PyTorch: weights and biases uniform within 1 / sqrt(inputs), batch norms 1 and 0. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (weight->inputs > 0)
        return (2.0 * rng_uniform(r) - 1.0) / sqrt((double)weight->inputs);
    return strcmp(strrchr(weight->name, '.'), ".weight") == 0 ? 1.0 : 0.0;
}

static const char *settle(trainer_sizes *sizes)
{
    const unet_arch *a = &archs[sizes->arch];
    net_model_usual(sizes, a->image, a->classes, 0);
    if (sizes->image > 4096 || sizes->image % ((size_t)1 << a->levels) != 0)
        return a->levels == 2 ? "the image size must be a multiple of 4 up to 4096"
                              : "the image size must be a multiple of 16 up to 4096";
    return net_model_check_classes(sizes);
}

extern const trainer_model segment_model;
const trainer_model segment_model = {
    .program = "segment-train",
    .about =
        "Trains a U-Net that gives each pixel of an image a class, on any OpenCL device. The\n"
        "activations that the backward pass reads are kept dense, pruned in blocks, as codes, or\n"
        "in part: the rest is recomputed.\n",
    .archs = names,
    .arch = 2, /* unet_micro */
    .pixels = true,
    .settle = settle,
    .build = build,
    .draw = draw,
};
