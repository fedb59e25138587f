/* ResNets (He et al., arXiv 1512.03385), with torchvision's names:
 *
 *     x -> stem: conv, batch norm, ReLU (, max pool)
 *       -> blocks { x = relu(bn2(conv2(relu(bn1(conv1 x)))) + shortcut(x)) }
 *       -> mean over the pixels -> fc
 *
 * A block of ResNet-50 has three convolutions, of 1 x 1, 3 x 3 and 1 x 1; the second has the
 * stride. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "resnet_model.h"

static const char *const names[] = {
    "resnet18", "resnet34", "resnet18_cifar", "resnet20", "resnet50", NULL};
static const resnet_arch archs[] = {
    {224, 1000, true, 4, {2, 2, 2, 2}, {64, 128, 256, 512}},
    {224, 1000, true, 4, {3, 4, 6, 3}, {64, 128, 256, 512}},
    {32, 10, false, 4, {2, 2, 2, 2}, {64, 128, 256, 512}},
    {32, 10, false, 3, {3, 3, 3}, {16, 32, 64}},
    {224, 1000, true, 4, {3, 4, 6, 3}, {64, 128, 256, 512}, .bottleneck = true},
};

static clprune_net_value convolve(clprune_net *net, const char *name, clprune_net_value x,
    size_t out, size_t kernel, size_t stride)
{
    const size_t padding = kernel / 2;
    return clprune_net_conv2d(net, name, x,
        &(clprune_net_conv){.out = out,
            .kernel = {kernel, kernel},
            .stride = {stride, stride},
            .padding = {padding, padding}});
}

static clprune_net_value stem(const resnet_arch *a, clprune_net *net, clprune_net_value x)
{
    x = convolve(net, "conv1", x, a->channels[0], a->pools ? 7 : 3, a->pools ? 2 : 1);
    x = clprune_net_relu(net, "relu", clprune_net_batch_norm(net, "bn1", x));
    if (!a->pools)
        return x;
    return clprune_net_max_pool(net, "maxpool", x,
        &(clprune_max_pool_desc){.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
}

static clprune_net_value basic(
    clprune_net *net, clprune_net_value x, size_t channels, size_t stride)
{
    x = convolve(net, "conv1", x, channels, 3, stride);
    x = clprune_net_relu(net, "relu1", clprune_net_batch_norm(net, "bn1", x));
    return clprune_net_batch_norm(net, "bn2", convolve(net, "conv2", x, channels, 3, 1));
}

static clprune_net_value bottleneck(
    clprune_net *net, clprune_net_value x, size_t channels, size_t stride)
{
    x = convolve(net, "conv1", x, channels, 1, 1);
    x = clprune_net_relu(net, "relu1", clprune_net_batch_norm(net, "bn1", x));
    x = convolve(net, "conv2", x, channels, 3, stride);
    x = clprune_net_relu(net, "relu2", clprune_net_batch_norm(net, "bn2", x));
    return clprune_net_batch_norm(net, "bn3", convolve(net, "conv3", x, 4 * channels, 1, 1));
}

static clprune_net_value block(
    const resnet_arch *a, clprune_net *net, clprune_net_value x, size_t stage, size_t number)
{
    const size_t channels = a->channels[stage], stride = stage > 0 && number == 0 ? 2 : 1;
    clprune_net_value y =
        a->bottleneck ? bottleneck(net, x, channels, stride) : basic(net, x, channels, stride);
    if (number == 0 && (stage > 0 || a->bottleneck)) {
        const size_t out = a->bottleneck ? 4 * channels : channels;
        x = convolve(net, "downsample.0", x, out, 1, stride);
        x = clprune_net_batch_norm(net, "downsample.1", x);
    }
    return clprune_net_relu(net, "out", clprune_net_add(net, "sum", y, x));
}

void resnet_build(const resnet_arch *arch, clprune_net *net)
{
    clprune_net_value x = stem(arch, net, clprune_net_images(net, 3, arch->image, arch->image));
    for (size_t s = 0; s < arch->stages; ++s)
        for (size_t b = 0; b < arch->blocks[s]; ++b) {
            char part[32];
            (void)snprintf(part, sizeof part, "layer%zu.%zu", s + 1, b);
            clprune_net_part(net, part);
            x = block(arch, net, x, s, b);
        }
    clprune_net_part(net, NULL);
    x = clprune_net_mean(net, "avgpool", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "fc", x, arch->classes));
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    resnet_arch arch = archs[sizes->arch];
    arch.image = sizes->image;
    arch.classes = sizes->classes;
    resnet_build(&arch, net);
}

/* Convolutions normal with deviation sqrt(2 / (outputs * taps)), as torchvision's (Kaiming, fan
 * out); fc as PyTorch's Linear; batch norms 1 and 0. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (weight->rank == 4)
        return sqrt(2.0 / (double)(weight->shape[0] * weight->shape[2] * weight->shape[3])) *
               rng_normal(r);
    if (weight->inputs > 0)
        return (2.0 * rng_uniform(r) - 1.0) / sqrt((double)weight->inputs);
    return strcmp(strrchr(weight->name, '.'), ".weight") == 0 ? 1.0 : 0.0;
}

static const char *settle(trainer_sizes *sizes)
{
    const resnet_arch *usual = &archs[sizes->arch];
    net_model_usual(sizes, usual->image, usual->classes, 0);
    if (sizes->image > 4096)
        return "the image size must be from 1 to 4096";
    return net_model_check_classes(sizes);
}

const trainer_model resnet_model = {
    .program = "resnet-train",
    .about =
        "Trains a ResNet on images, on any OpenCL device. The activations that the backward pass\n"
        "reads are kept dense, pruned in blocks, as means of cells of pixels (arXiv 2409.11902),\n"
        "as codes, or in part: the rest is recomputed.\n",
    .archs = names,
    .arch = 3, /* resnet20 */
    /* the mean of an image between ReLU and batch norm is large, but adds almost nothing to
       gradients (clprune/keep.h) */
    .centre = CLPRUNE_CENTRE_SAMPLE,
    .settle = settle,
    .build = build,
    .draw = draw,
};
