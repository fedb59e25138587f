/* The network of airbench94 (Jordan, arXiv 2404.00498), which reaches 94 % on CIFAR-10 in ten
 * epochs:
 *
 *     x -> whiten (2 x 2, frozen weights), GELU -> group1 (64) -> group2 (256) -> group3 (256)
 *       -> max pool 3 x 3 -> head -> / 9
 *     group: conv1 3 x 3, max pool 2 x 2, norm1, GELU, conv2 3 x 3, norm2, GELU
 *
 * Convolutions but the first have no bias, batch norms no scale. Convolutions of groups begin as
 * the identity in their first filters, the first one as a whitening of the training images. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/model/net_model.h"

enum { CHANNELS = 3, SIDE = 2, PATCH = SIDE * SIDE * CHANNELS }; /* of the whitening */

/* Channels of the three groups. */
typedef struct airbench_arch {
    size_t image, classes, channels[3];
} airbench_arch;

static const char *const names[] = {"airbench94", "airbench_tiny", NULL};
static const airbench_arch archs[] = {{32, 10, {64, 256, 256}}, {32, 10, {8, 16, 16}}};

static clprune_net_value group(
    clprune_net *net, const char *name, clprune_net_value x, size_t channels)
{
    const clprune_net_conv conv = {.out = channels, .kernel = {3, 3}, .padding = {1, 1}};
    clprune_net_part(net, name);
    x = clprune_net_conv2d(net, "conv1", x, &conv);
    x = clprune_net_max_pool(net, "pool", x, &(clprune_max_pool_desc){.kernel = {2, 2}});
    x = clprune_net_gelu(net, "gelu1", clprune_net_batch_norm(net, "norm1", x));
    x = clprune_net_conv2d(net, "conv2", x, &conv);
    x = clprune_net_gelu(net, "gelu2", clprune_net_batch_norm(net, "norm2", x));
    clprune_net_part(net, NULL);
    return x;
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const clprune_net_conv whiten = {.out = 2 * PATCH, .kernel = {SIDE, SIDE}, .bias = true};
    clprune_net_eps(net, 1e-12f);
    clprune_net_momentum(net, 0.4f);
    clprune_net_value x = clprune_net_images(net, CHANNELS, sizes->image, sizes->image);
    x = clprune_net_gelu(net, "gelu", clprune_net_conv2d(net, "whiten", x, &whiten));
    for (size_t i = 0; i < 3; ++i) {
        char name[16];
        (void)snprintf(name, sizeof name, "group%zu", i + 1);
        x = group(net, name, x, archs[sizes->arch].channels[i]);
    }
    x = clprune_net_max_pool(net, "pool", x, &(clprune_max_pool_desc){.kernel = {3, 3}});
    x = clprune_net_project(net, "head", clprune_net_flatten(net, "flatten", x), sizes->classes);
    clprune_net_cross_entropy(net, clprune_net_scale(net, "scale", x, 1 / 9.0f));
    clprune_net_freeze(net, "whiten.weight");
    clprune_net_freeze(net, "*.norm?.weight");
}

/* As PyTorch: weights uniform up to 1 / sqrt(inputs); biases 0, scales 1. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (weight->rank < 2)
        return strstr(weight->name, ".weight") != NULL ? 1 : 0;
    const size_t taps = weight->rank == 4 ? weight->shape[2] * weight->shape[3] : 1;
    return (2 * rng_uniform(r) - 1) / sqrt((double)(weight->shape[1] * taps));
}

/* The mean of p p^T over all patches p of the images, in the order of the convolution's weights. */
static void correlate(
    size_t count, size_t size, const float *images, double correlation[PATCH][PATCH])
{
    const size_t places = count * (size - SIDE + 1) * (size - SIDE + 1);
    for (size_t i = 0; i < count; ++i, images += CHANNELS * size * size)
        for (size_t y = 0; y + SIDE <= size; ++y)
            for (size_t x = 0; x + SIDE <= size; ++x) {
                float p[PATCH];
                for (size_t k = 0; k < PATCH; ++k)
                    p[k] = images[(k % CHANNELS * size + y + k / CHANNELS / SIDE) * size + x +
                                  k / CHANNELS % SIDE];
                for (size_t a = 0; a < PATCH; ++a)
                    for (size_t b = 0; b <= a; ++b)
                        correlation[a][b] += (double)(p[a] * p[b]);
            }
    for (size_t a = 0; a < PATCH; ++a)
        for (size_t b = 0; b <= a; ++b)
            correlation[b][a] = correlation[a][b] /= (double)places;
}

/* Turns columns p and q of m, and with `rows` also its rows, by the angle of c and s. */
static void turn(double m[PATCH][PATCH], bool rows, size_t p, size_t q, double c, double s)
{
    for (size_t k = 0; k < PATCH; ++k) {
        const double a = m[k][p], b = m[k][q];
        m[k][p] = c * a - s * b;
        m[k][q] = s * a + c * b;
    }
    for (size_t k = 0; rows && k < PATCH; ++k) {
        const double a = m[p][k], b = m[q][k];
        m[p][k] = c * a - s * b;
        m[q][k] = s * a + c * b;
    }
}

/* Jacobi's method: the columns of `vectors` become the eigenvectors of the symmetric m, whose
 * diagonal becomes the eigenvalues. */
static void diagonalise(double m[PATCH][PATCH], double vectors[PATCH][PATCH])
{
    for (size_t k = 0; k < PATCH; ++k)
        vectors[k][k] = 1;
    for (int sweep = 0; sweep < 30; ++sweep)
        for (size_t p = 0; p < PATCH; ++p)
            for (size_t q = p + 1; q < PATCH; ++q) {
                const double angle = 0.5 * atan2(2 * m[p][q], m[q][q] - m[p][p]);
                turn(m, true, p, q, cos(angle), sin(angle));
                turn(vectors, false, p, q, cos(angle), sin(angle));
            }
}

/* Filters: eigenvectors of the patches over sqrt(eigenvalue + 5e-4), the largest first, and then
 * their negatives. */
static void whiten(size_t count, size_t size, const float *images, float *values)
{
    double m[PATCH][PATCH] = {{0}}, vectors[PATCH][PATCH] = {{0}};
    bool taken[PATCH] = {false};
    correlate(count, size, images, m);
    diagonalise(m, vectors);
    for (size_t filter = 0; filter < PATCH; ++filter) {
        size_t best = 0;
        for (size_t i = 0; i < PATCH; ++i)
            if (!taken[i] && (taken[best] || m[i][i] > m[best][best]))
                best = i;
        taken[best] = true;
        for (size_t k = 0; k < PATCH; ++k) {
            const float value = (float)(vectors[k][best] / sqrt(m[best][best] + 5e-4));
            values[filter * PATCH + k] = value;
            values[(filter + PATCH) * PATCH + k] = -value;
        }
    }
}

static void fit(const trainer_sizes *sizes, const clprune_net_weight *weight, size_t count,
    const float *images, float *values)
{
    if (strcmp(weight->name, "whiten.weight") == 0)
        whiten(count, sizes->image, images, values);
    else if (weight->rank == 4) { /* the identity in the first filters */
        const size_t out = weight->shape[0], in = weight->shape[1];
        const size_t taps = weight->shape[2] * weight->shape[3];
        for (size_t o = 0; o < out && o < in; ++o)
            for (size_t k = 0; k < in * taps; ++k)
                values[o * in * taps + k] = k / in == taps / 2 && k % in == o ? 1 : 0;
    }
}

static const char *settle(trainer_sizes *sizes)
{
    const airbench_arch *usual = &archs[sizes->arch];
    net_model_usual(sizes, usual->image, usual->classes, 0);
    if (sizes->image != usual->image)
        return "the images must have 32 pixels per side";
    return net_model_check_classes(sizes);
}

extern const trainer_model airbench_model;
const trainer_model airbench_model = {
    .program = "airbench-train",
    .about =
        "Trains the network of airbench94 on images of 32 x 32, on any OpenCL device. The\n"
        "activations that the backward pass reads are kept dense, pruned in blocks, as means of\n"
        "cells of pixels, as codes, or in part: the rest is recomputed.\n",
    .archs = names,
    .arch = 1, /* airbench_tiny */
    .centre = CLPRUNE_CENTRE_SAMPLE,
    .settle = settle,
    .build = build,
    .draw = draw,
    .fit = fit,
};
