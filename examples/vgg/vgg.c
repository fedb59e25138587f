/* VGG (Simonyan and Zisserman, arXiv 1409.1556), with torchvision's names:
 *
 *     x -> features { conv (, batch norm), ReLU; max pool after each stage }
 *       -> flatten -> classifier { linear, ReLU, dropout; linear, ReLU, dropout; linear } */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/model/net_model.h"

/* Convolutions of the five stages; 64 to 512 channels. */
typedef struct vgg_arch {
    size_t image, classes, convs[5], hidden;
    bool norm;
    float dropout;
} vgg_arch;

static const char *const names[] = {
    "vgg11", "vgg11_bn", "vgg16", "vgg16_bn", "vgg11_cifar", "vgg11_bn_cifar", NULL};
static const vgg_arch archs[] = {
    {224, 1000, {1, 1, 2, 2, 2}, 4096, false, 0.5f},
    {224, 1000, {1, 1, 2, 2, 2}, 4096, true, 0.5f},
    {224, 1000, {2, 2, 3, 3, 3}, 4096, false, 0.5f},
    {224, 1000, {2, 2, 3, 3, 3}, 4096, true, 0.5f},
    {32, 10, {1, 1, 2, 2, 2}, 512, false, 0},
    {32, 10, {1, 1, 2, 2, 2}, 512, true, 0},
};

static clprune_net_value features(const vgg_arch *a, clprune_net *net, clprune_net_value x)
{
    char name[8];
    size_t layer = 0;
    clprune_net_part(net, "features");
    for (size_t s = 0; s < 5; ++s) {
        const size_t channels = s < 4 ? (size_t)64 << s : 512;
        for (size_t i = 0; i < a->convs[s]; ++i) {
            (void)snprintf(name, sizeof name, "%zu", layer++);
            x = clprune_net_conv2d(net, name, x,
                &(clprune_net_conv){
                    .out = channels, .kernel = {3, 3}, .padding = {1, 1}, .bias = true});
            if (a->norm) {
                (void)snprintf(name, sizeof name, "%zu", layer++);
                x = clprune_net_batch_norm(net, name, x);
            }
            (void)snprintf(name, sizeof name, "%zu", layer++);
            x = clprune_net_relu(net, name, x);
        }
        (void)snprintf(name, sizeof name, "%zu", layer++);
        x = clprune_net_max_pool(
            net, name, x, &(clprune_max_pool_desc){.kernel = {2, 2}, .stride = {2, 2}});
    }
    clprune_net_part(net, NULL);
    return x;
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const vgg_arch *a = &archs[sizes->arch];
    clprune_net_value x = clprune_net_images(net, 3, sizes->image, sizes->image);
    x = clprune_net_flatten(net, "flatten", features(a, net, x));
    clprune_net_part(net, "classifier");
    x = clprune_net_relu(net, "1", clprune_net_linear(net, "0", x, a->hidden));
    x = clprune_net_dropout(net, "2", x, a->dropout);
    x = clprune_net_relu(net, "4", clprune_net_linear(net, "3", x, a->hidden));
    x = clprune_net_dropout(net, "5", x, a->dropout);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "6", x, sizes->classes));
}

/* As torchvision: convolutions normal with deviation sqrt(2 / (outputs * taps)) (Kaiming, fan out),
 * linear layers normal with deviation 0.01, biases 0, batch norms 1 and 0. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (weight->rank == 4)
        return sqrt(2.0 / (double)(weight->shape[0] * weight->shape[2] * weight->shape[3])) *
               rng_normal(r);
    if (weight->rank == 2)
        return 0.01 * rng_normal(r);
    return weight->inputs == 0 && strstr(weight->name, ".weight") != NULL ? 1 : 0;
}

static const char *settle(trainer_sizes *sizes)
{
    const vgg_arch *usual = &archs[sizes->arch];
    net_model_usual(sizes, usual->image, usual->classes, 0);
    if (sizes->image < 32 || sizes->image > 4096)
        return "the image size must be from 32 to 4096";
    return net_model_check_classes(sizes);
}

extern const trainer_model vgg_model;
const trainer_model vgg_model = {
    .program = "vgg-train",
    .about =
        "Trains a VGG on images, on any OpenCL device. The activations that the backward pass\n"
        "reads are kept dense, pruned in blocks, as means of cells of pixels, as codes, or in\n"
        "part: the rest is recomputed.\n",
    .archs = names,
    .arch = 5, /* vgg11_bn_cifar */
    .centre = CLPRUNE_CENTRE_SAMPLE,
    .settle = settle,
    .build = build,
    .draw = draw,
};
