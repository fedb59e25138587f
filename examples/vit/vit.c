/* Vision Transformer (Dosovitskiy et al., arXiv 2010.11929; DeiT, arXiv 2012.12877), with timm's
 * names:
 *
 *     x -> patch embedding -> class token before the patches -> + positions
 *       -> depth blocks { x += proj(attention(qkv(norm1 x)));  x += fc2(gelu(fc1(norm2 x))) }
 *       -> norm of the class token -> head
 *
 * Only the class token is read at the end, so the last block computes only that row of all but its
 * keys and values. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/model/net_model.h"

typedef struct vit_arch {
    size_t image, patch, dim, depth, heads, classes;
} vit_arch;

static const char *const names[] = {
    "deit_tiny", "deit_small", "vit_base", "vit_cifar", "vit_cifar_small", NULL};
static const vit_arch archs[] = {
    {224, 16, 192, 12, 3, 1000},
    {224, 16, 384, 12, 6, 1000},
    {224, 16, 768, 12, 12, 1000},
    {32, 4, 192, 6, 3, 10},
    {32, 4, 128, 6, 4, 10},
};

static clprune_net_value add_block(
    clprune_net *net, const vit_arch *a, clprune_net_value x, bool last)
{
    const clprune_net_attn attn = {.heads = a->heads, .queries = last ? 1 : 0};
    clprune_net_value t = clprune_net_layer_norm(net, "norm1", x);
    t = clprune_net_linear(net, "attn.qkv", t, 3 * a->dim);
    t = clprune_net_attention(net, "attn", t, &attn);
    t = clprune_net_linear(net, "attn.proj", t, a->dim);
    if (last)
        x = clprune_net_row(net, "class", x, 0);
    x = clprune_net_add(net, "sum1", x, t);
    t = clprune_net_linear(net, "mlp.fc1", clprune_net_layer_norm(net, "norm2", x), 4 * a->dim);
    t = clprune_net_linear(net, "mlp.fc2", clprune_net_gelu(net, "mlp.act", t), a->dim);
    return clprune_net_add(net, "sum2", x, t);
}

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const vit_arch *a = &archs[sizes->arch];
    clprune_net_eps(net, 1e-6f);
    clprune_net_value x = clprune_net_images(net, 3, sizes->image, sizes->image);
    x = clprune_net_patch_embed(net, "patch_embed.proj", x, (size_t)sizes->extra[0], a->dim);
    x = clprune_net_positions(net, "pos_embed", clprune_net_class_token(net, "cls_token", x));
    for (size_t i = 0; i < a->depth; ++i) {
        char part[32];
        (void)snprintf(part, sizeof part, "blocks.%zu", i);
        clprune_net_part(net, part);
        x = add_block(net, a, x, i + 1 == a->depth);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_layer_norm(net, "norm", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, sizes->classes));
}

/* As timm: matrices and positions normal with deviation 0.02, the class token with 1e-6, biases 0;
 * the patch embedding uniform in +-1 / sqrt(inputs), as PyTorch's convolutions. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (strcmp(weight->name, "cls_token") == 0)
        return 1e-6 * rng_normal(r);
    if (strncmp(weight->name, "patch_embed.", 12) == 0)
        return (2.0 * rng_uniform(r) - 1.0) / sqrt((double)weight->inputs);
    if (weight->rank > 1)
        return 0.02 * rng_normal(r);
    return weight->inputs == 0 && strstr(weight->name, ".weight") != NULL ? 1 : 0;
}

/* timm has the class token as 1 x 1 x dim, positions as 1 x rows x dim. */
static size_t in_files(const trainer_sizes *sizes, trainer_weight *piece)
{
    (void)sizes;
    if (strcmp(piece->name, "cls_token") == 0 || strcmp(piece->name, "pos_embed") == 0) {
        piece->rank = 3;
        piece->shape[2] = piece->shape[1];
        piece->shape[1] = piece->shape[0];
        piece->shape[0] = 1;
    }
    return 1;
}

static const char *settle(trainer_sizes *sizes)
{
    const vit_arch *usual = &archs[sizes->arch];
    net_model_usual(sizes, usual->image, usual->classes, usual->patch);
    if (sizes->image > 1 << 12 || sizes->classes > 1 << 20)
        return "the image size must be from 1 to 4096, with up to 2^20 classes";
    if (sizes->image % sizes->extra[0] != 0)
        return "the image size is not a multiple of the patch size";
    return NULL;
}

static const trainer_extra extras[] = {{"patch-size", "patch_size", 1, 4096,
    "pixels per side of a patch; default: the architecture's"}};

static const char *const defaults[][2] = {{"lr", "0.001"}, {"clip-norm", "1"}, {NULL, NULL}};

extern const trainer_model vit_model;
const trainer_model vit_model = {
    .program = "vit-train",
    .about =
        "Trains a Vision Transformer on images, on any OpenCL device. The activations that the\n"
        "backward pass reads are kept dense, pruned in blocks, as codes, or in part: the rest is\n"
        "recomputed.\n",
    .archs = names,
    .arch = 4, /* vit_cifar_small */
    .extras = extras,
    .extras_count = sizeof extras / sizeof *extras,
    .defaults = defaults,
    .settle = settle,
    .build = build,
    .draw = draw,
    .in_files = in_files,
};
