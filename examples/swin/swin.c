/* Swin Transformer (Liu et al., arXiv 2103.14030), with timm's names:
 *
 *     x -> patch embedding -> norm
 *       -> stages { from the second on: features of 2 x 2 pixels beside each other -> norm ->
 * reduction; blocks { x += proj(attention(qkv(norm1 x)));  x += fc2(gelu(fc1(norm2 x))) } }
 *       -> norm -> mean over pixels -> head.fc
 *
 * Attention is within windows; in every second block these are shifted by half a window: the image
 * is rolled, and what was not next to each other does not see each other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/model/net_model.h"

enum { STAGES = 4 };

typedef struct swin_arch {
    size_t image, patch, dim, depths[STAGES], heads[STAGES], window,
        classes; /* depth 0: no stage */
} swin_arch;

static const char *const names[] = {
    "swin_tiny", "swin_small", "swin_base", "swin_cifar", "swin_micro", NULL};
static const swin_arch archs[] = {
    {224, 4, 96, {2, 2, 6, 2}, {3, 6, 12, 24}, 7, 1000},
    {224, 4, 96, {2, 2, 18, 2}, {3, 6, 12, 24}, 7, 1000},
    {224, 4, 128, {2, 2, 18, 2}, {4, 8, 16, 32}, 7, 1000},
    {32, 2, 96, {2, 4, 2, 0}, {3, 6, 12, 0}, 4, 10},
    {32, 2, 48, {2, 2, 2, 0}, {3, 6, 12, 0}, 4, 10},
};

/* A stage: pixels of a side, features, heads; pixels of a window's side. */
typedef struct swin_stage {
    size_t side, dim, heads, window;
} swin_stage;

/* Pixel i becomes pixel i - by, around the edge. */
static clprune_net_value roll(
    clprune_net *net, const char *name, clprune_net_value x, size_t side, size_t by)
{
    uint32_t *first = malloc((2 * side + 1) * sizeof *first), *from = first + side + 1;
    float *weight = malloc(side * sizeof *weight);
    for (size_t i = 0; first != NULL && weight != NULL && i <= side; ++i) {
        first[i] = (uint32_t)i;
        if (i < side) {
            from[i] = (uint32_t)((i + by) % side);
            weight[i] = 1;
        }
    }
    const clprune_net_axis axis = {side, first, from, weight};
    x = clprune_net_resample(net, name, x, &axis, &axis);
    free(first);
    free(weight);
    return x;
}

/* The part of an axis in which a pixel of a rolled image is: it sees those of its part alone. */
static size_t part_of(const swin_stage *s, size_t pixel, size_t shift)
{
    return (size_t)(pixel >= s->side - s->window) + (size_t)(pixel >= s->side - shift);
}

/* Attention whose scores have a value added for each distance, and a mask where windows are
 * shifted.
 */
static clprune_net_value attend(
    clprune_net *net, const swin_stage *s, clprune_net_value qkv, size_t shift)
{
    const size_t w = s->window, rows = w * w, along = s->side / w, windows = along * along;
    const size_t masks = shift > 0 ? windows : 0, reach = 2 * w - 1;
    uint32_t *index = malloc(rows * rows * sizeof *index);
    float *mask = malloc((masks * rows * rows + 1) * sizeof *mask);
    for (size_t i = 0; index != NULL && i < rows * rows; ++i) {
        const size_t q = i / rows, k = i % rows;
        index[i] = (uint32_t)((w - 1 + q / w - k / w) * reach + w - 1 + q % w - k % w);
    }
    for (size_t i = 0; mask != NULL && i < masks * rows * rows; ++i) {
        const size_t window = i / rows / rows, q = i / rows % rows, k = i % rows;
        const size_t top = window / along * w, left = window % along * w;
        const bool same = part_of(s, top + q / w, shift) == part_of(s, top + k / w, shift) &&
                          part_of(s, left + q % w, shift) == part_of(s, left + k % w, shift);
        mask[i] = same ? 0 : -100;
    }
    const clprune_net_bias bias = {.table = "relative_position_bias_table",
        .entries = reach * reach,
        .index = index,
        .masks = masks,
        .mask = mask};
    const clprune_net_value y = clprune_net_attention(
        net, "attn", qkv, &(clprune_net_attn){.heads = s->heads, .window = rows, .bias = &bias});
    free(index);
    free(mask);
    return y;
}

static clprune_net_value add_block(
    clprune_net *net, const swin_stage *s, clprune_net_value x, size_t shift)
{
    const size_t w = s->window, along = s->side / w;
    const clprune_permute_desc cut = {5, {along, w, along, w, s->dim}, {0, 2, 1, 3, 4}},
                               whole = {5, {along, along, w, w, s->dim}, {0, 2, 1, 3, 4}};
    clprune_net_value t = clprune_net_layer_norm(net, "norm1", x);
    if (shift > 0)
        t = roll(net, "shift", t, s->side, shift);
    t = clprune_net_permute(net, "cut", t, &cut, s->dim, (clprune_extent){0, 0});
    t = attend(net, s, clprune_net_linear(net, "attn.qkv", t, 3 * s->dim), shift);
    t = clprune_net_linear(net, "attn.proj", t, s->dim);
    t = clprune_net_permute(net, "whole", t, &whole, s->dim, (clprune_extent){s->side, s->side});
    if (shift > 0)
        t = roll(net, "shift_back", t, s->side, s->side - shift);
    x = clprune_net_add(net, "sum1", x, t);
    t = clprune_net_linear(net, "mlp.fc1", clprune_net_layer_norm(net, "norm2", x), 4 * s->dim);
    t = clprune_net_linear(net, "mlp.fc2", clprune_net_gelu(net, "mlp.act", t), s->dim);
    return clprune_net_add(net, "sum2", x, t);
}

/* From the stage before, `s` is this one: the features of 2 x 2 pixels, column by column. */
static clprune_net_value merge(clprune_net *net, const swin_stage *s, clprune_net_value x)
{
    const clprune_permute_desc beside = {5, {s->side, 2, s->side, 2, s->dim / 2}, {0, 2, 3, 1, 4}};
    x = clprune_net_permute(
        net, "downsample.cut", x, &beside, 2 * s->dim, (clprune_extent){s->side, s->side});
    x = clprune_net_layer_norm(net, "downsample.norm", x);
    return clprune_net_project(net, "downsample.reduction", x, s->dim);
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const swin_arch *a = &archs[sizes->arch];
    clprune_net_value x = clprune_net_images(net, 3, sizes->image, sizes->image);
    x = clprune_net_patch_embed(net, "patch_embed.proj", x, a->patch, a->dim);
    x = clprune_net_layer_norm(net, "patch_embed.norm", x);
    for (size_t i = 0; i < STAGES && a->depths[i] > 0; ++i) {
        char part[48];
        const size_t side = sizes->image / a->patch >> i;
        const swin_stage s = {side, a->dim << i, a->heads[i], side < a->window ? side : a->window};
        (void)snprintf(part, sizeof part, "layers.%zu", i);
        clprune_net_part(net, part);
        if (i > 0)
            x = merge(net, &s, x);
        for (size_t k = 0; k < a->depths[i]; ++k) {
            (void)snprintf(part, sizeof part, "layers.%zu.blocks.%zu", i, k);
            clprune_net_part(net, part);
            x = add_block(net, &s, x, k % 2 == 1 && side > s.window ? s.window / 2 : 0);
        }
    }
    clprune_net_part(net, NULL);
    x = clprune_net_mean(net, "pool", clprune_net_layer_norm(net, "norm", x));
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head.fc", x, sizes->classes));
}

/* As timm: matrices and tables normal with deviation 0.02, biases 0; the patch embedding uniform in
 * +-1 / sqrt(inputs), as PyTorch's convolutions. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (strncmp(weight->name, "patch_embed.proj", 16) == 0)
        return (2.0 * rng_uniform(r) - 1.0) / sqrt((double)weight->inputs);
    if (weight->rank > 1)
        return 0.02 * rng_normal(r);
    return weight->inputs == 0 && strstr(weight->name, ".weight") != NULL ? 1 : 0;
}

static const char *settle(trainer_sizes *sizes)
{
    const swin_arch *a = &archs[sizes->arch];
    net_model_usual(sizes, a->image, a->classes, 0);
    if (sizes->image > 1 << 12)
        return "the image size must be from 1 to 4096";
    for (size_t i = 0; i < STAGES && a->depths[i] > 0; ++i) {
        const size_t pixels = a->patch << i, side = sizes->image / pixels;
        if (sizes->image % pixels != 0 || side == 0 || (side > a->window && side % a->window != 0))
            return "the image size is not a multiple of the patches and windows of all stages";
    }
    return net_model_check_classes(sizes);
}

static const char *const defaults[][2] = {
    {"lr", "0.001"}, {"weight-decay", "0.05"}, {"clip-norm", "1"}, {NULL, NULL}};

/* Of older timm and Microsoft's. */
static const char *const buffers[] = {"*.relative_position_index", "*.attn_mask", NULL};

extern const trainer_model swin_model;
const trainer_model swin_model = {
    .program = "swin-train",
    .about =
        "Trains a Swin Transformer on images, on any OpenCL device. The activations that the\n"
        "backward pass reads are kept dense, pruned in blocks, as codes, or in part: the rest is\n"
        "recomputed.\n",
    .archs = names,
    .arch = 4, /* swin_micro */
    .defaults = defaults,
    .buffers = buffers,
    .settle = settle,
    .build = build,
    .draw = draw,
};
