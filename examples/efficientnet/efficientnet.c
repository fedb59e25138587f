/* EfficientNet (Tan and Le, arXiv 1905.11946), MobileNetV2 (1801.04381) and V3 (1905.02244), with
 * timm's names:
 *
 *     x -> conv_stem -> blocks { conv_pw, conv_dw, gates (se), conv_pwl; + x if the shape stays }
 *       -> conv_head -> mean over pixels -> classifier
 *
 * Each convolution has a batch norm and, but for a block's last one, an activation. The first stage
 * has no conv_pw, and calls its last convolution so. In V3 a last stage is one convolution, and
 * conv_head reads the mean. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/model/net_model.h"

enum { ROWS = 10, GATES = 1, RELU = 2, SAME = 4 };

/* Equal blocks, but for the stride of the first; expand: features within over those of its input.
 * GATES: it has se; RELU: as activation; SAME: it goes on with the stage of the row before. */
typedef struct block_row {
    size_t repeats, kernel, stride;
    double expand;
    size_t out;
    unsigned flags;
} block_row;

typedef struct family {
    size_t stem, features;
    bool v3;
    clprune_net_value (*act)(clprune_net *net, const char *name, clprune_net_value x);
    block_row rows[ROWS];
} family;

static const family efficientnet = {32, 1280, false, clprune_net_silu,
    {{1, 3, 1, 1, 16, GATES}, {2, 3, 2, 6, 24, GATES}, {2, 5, 2, 6, 40, GATES},
        {3, 3, 2, 6, 80, GATES}, {3, 5, 1, 6, 112, GATES}, {4, 5, 2, 6, 192, GATES},
        {1, 3, 1, 6, 320, GATES}}};
static const family mobilenetv2 = {32, 1280, false, clprune_net_relu6,
    {{1, 3, 1, 1, 16, 0}, {2, 3, 2, 6, 24, 0}, {3, 3, 2, 6, 32, 0}, {4, 3, 2, 6, 64, 0},
        {3, 3, 1, 6, 96, 0}, {3, 3, 2, 6, 160, 0}, {1, 3, 1, 6, 320, 0}}};
static const family mobilenetv3 = {16, 1280, true, clprune_net_hard_swish,
    {{1, 3, 1, 1, 16, RELU}, {1, 3, 2, 4, 24, RELU}, {1, 3, 1, 3, 24, RELU | SAME},
        {3, 5, 2, 3, 40, RELU | GATES}, {1, 3, 2, 6, 80, 0}, {1, 3, 1, 2.5, 80, SAME},
        {2, 3, 1, 2.3, 80, SAME}, {2, 3, 1, 6, 112, GATES}, {3, 5, 2, 6, 160, GATES},
        {1, 1, 1, 1, 960, 0}}};
static const family efficientnet_few = {16, 128, false, clprune_net_silu,
    {{1, 3, 1, 1, 16, GATES}, {1, 3, 1, 4, 24, GATES}, {2, 5, 2, 4, 32, GATES}}};
static const family mobilenetv3_few = {16, 128, true, clprune_net_hard_swish,
    {{1, 3, 1, 1, 16, RELU}, {1, 3, 2, 4, 24, RELU}, {2, 5, 1, 2.5, 24, GATES | SAME},
        {1, 1, 1, 1, 96, 0}}};

typedef struct net_arch {
    const family *of;
    double width, depth; /* of features and of repeats */
    size_t image, classes;
} net_arch;

static const char *const names[] = {"efficientnet_b0", "efficientnet_b1", "efficientnet_b2",
    "efficientnet_b3", "efficientnet_b4", "mobilenetv2_100", "mobilenetv3_large_100",
    "efficientnet_micro", "mobilenetv3_micro", NULL};
static const net_arch archs[] = {
    {&efficientnet, 1, 1, 224, 1000},
    {&efficientnet, 1, 1.1, 240, 1000},
    {&efficientnet, 1.1, 1.2, 260, 1000},
    {&efficientnet, 1.2, 1.4, 300, 1000},
    {&efficientnet, 1.4, 1.8, 380, 1000},
    {&mobilenetv2, 1, 1, 224, 1000},
    {&mobilenetv3, 1, 1, 224, 1000},
    {&efficientnet_few, 1, 1, 32, 10},
    {&mobilenetv3_few, 1, 1, 32, 10},
};

/* The next multiple of 8, but none that is over a tenth smaller. */
static size_t round_features(double features)
{
    const size_t near = (size_t)(features + 4) / 8 * 8, least = near < 8 ? 8 : near;
    return (double)least < 0.9 * features ? least + 8 : least;
}

/* A convolution with its norm; groups 0: one. */
static clprune_net_value convolve(clprune_net *net, const char *conv, const char *norm,
    clprune_net_value x, size_t out, size_t kernel, size_t stride, size_t groups)
{
    const size_t pad = kernel / 2;
    const clprune_net_conv desc = {.out = out,
        .kernel = {kernel, kernel},
        .stride = {stride, stride},
        .padding = {pad, pad},
        .groups = groups};
    return clprune_net_batch_norm(net, norm, clprune_net_conv2d(net, conv, x, &desc));
}

/* x times gates of each sample's features, `inner` of them. */
static clprune_net_value squeeze(
    const family *f, clprune_net *net, clprune_net_value x, size_t inner, size_t in)
{
    const size_t reduced = f->v3 ? round_features(0.25 * (double)inner) : in / 4;
    clprune_net_value g = clprune_net_mean(net, "se.pool", x);
    g = clprune_net_linear(net, "se.conv_reduce", g, reduced);
    g = f->v3 ? clprune_net_relu(net, "se.act1", g) : f->act(net, "se.act1", g);
    g = clprune_net_linear(net, "se.conv_expand", g, inner);
    g = f->v3 ? clprune_net_hard_sigmoid(net, "se.gate", g)
              : clprune_net_sigmoid(net, "se.gate", g);
    return clprune_net_gate(net, "se", x, g);
}

static clprune_net_value block(const family *f, const block_row *row, clprune_net *net,
    clprune_net_value x, size_t in, size_t out, size_t stride)
{
    clprune_net_value (*const act)(clprune_net *, const char *, clprune_net_value) =
        row->flags & RELU ? clprune_net_relu : f->act;
    const bool first = row == f->rows;
    const size_t inner = first ? in : round_features(row->expand * (double)in);
    if (row->kernel == 1)
        return act(net, "act", convolve(net, "conv", "bn1", x, out, 1, 1, 0));
    clprune_net_value t = x;
    if (!first)
        t = act(net, "act1", convolve(net, "conv_pw", "bn1", t, inner, 1, 1, 0));
    t = convolve(net, "conv_dw", first ? "bn1" : "bn2", t, inner, row->kernel, stride, inner);
    t = act(net, first ? "act1" : "act2", t);
    if (row->flags & GATES)
        t = squeeze(f, net, t, inner, in);
    t = convolve(net, first ? "conv_pw" : "conv_pwl", first ? "bn2" : "bn3", t, out, 1, 1, 0);
    return stride == 1 && in == out ? clprune_net_add(net, "sum", t, x) : t;
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const net_arch *a = &archs[sizes->arch];
    const family *f = a->of;
    size_t in = round_features(a->width * (double)f->stem), stage = 0, index = 0;
    clprune_net_value x = clprune_net_images(net, 3, sizes->image, sizes->image);
    x = f->act(net, "act1", convolve(net, "conv_stem", "bn1", x, in, 3, 2, 0));
    for (const block_row *row = f->rows; row < f->rows + ROWS && row->repeats > 0; ++row) {
        const size_t out = round_features(a->width * (double)row->out);
        if (row > f->rows && (row->flags & SAME) == 0) {
            ++stage;
            index = 0;
        }
        for (size_t k = 0; k < (size_t)ceil(a->depth * (double)row->repeats - 1e-9); ++k) {
            char part[48];
            (void)snprintf(part, sizeof part, "blocks.%zu.%zu", stage, index++);
            clprune_net_part(net, part);
            x = block(f, row, net, x, in, out, k == 0 ? row->stride : 1);
            in = out;
        }
    }
    clprune_net_part(net, NULL);
    const size_t features = round_features(a->width * (double)f->features);
    if (f->v3)
        x = clprune_net_linear(net, "conv_head", clprune_net_mean(net, "pool", x), features);
    else
        x = convolve(net, "conv_head", "bn2", x, features, 1, 1, 0);
    x = f->act(net, "act2", x);
    if (!f->v3)
        x = clprune_net_mean(net, "pool", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "classifier", x, sizes->classes));
}

/* As timm: convolutions normal with deviation sqrt(2 / (outputs of a group * taps)), the classifier
 * uniform in +-1 / sqrt(outputs), biases 0. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    const bool depthwise = weight->rank == 4 && weight->shape[1] == 1;
    const size_t taps = weight->rank == 4 ? weight->shape[2] * weight->shape[3] : 1;
    if (strcmp(weight->name, "classifier.weight") == 0)
        return (2.0 * rng_uniform(r) - 1.0) / sqrt((double)sizes->classes);
    if (weight->rank > 1)
        return sqrt(2.0 / (double)((depthwise ? 1 : weight->shape[0]) * taps)) * rng_normal(r);
    return weight->inputs == 0 && strstr(weight->name, ".weight") != NULL ? 1 : 0;
}

/* timm has convolutions of 1 x 1 on means. */
static size_t in_files(const trainer_sizes *sizes, trainer_weight *piece)
{
    (void)sizes;
    if (piece->rank == 2 && strcmp(piece->name, "classifier.weight") != 0) {
        piece->rank = 4;
        piece->shape[2] = piece->shape[3] = 1;
    }
    return 1;
}

static const char *settle(trainer_sizes *sizes)
{
    const net_arch *a = &archs[sizes->arch];
    net_model_usual(sizes, a->image, a->classes, 0);
    if (sizes->image < 32 || sizes->image > 4096)
        return "the image size must be from 32 to 4096";
    return net_model_check_classes(sizes);
}

extern const trainer_model efficientnet_model;
const trainer_model efficientnet_model = {
    .program = "efficientnet-train",
    .about =
        "Trains an EfficientNet or a MobileNet on images, on any OpenCL device. The activations\n"
        "that the backward pass reads are kept dense, pruned in blocks, as codes, or in part: the\n"
        "rest is recomputed.\n",
    .archs = names,
    .arch = 7, /* efficientnet_micro */
    .centre = CLPRUNE_CENTRE_SAMPLE,
    .settle = settle,
    .build = build,
    .draw = draw,
    .in_files = in_files,
};
