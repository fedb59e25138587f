/* ViT (Dosovitskiy et al., arXiv 2010.11929; DeiT, 2012.12877), with the names of timm's
 * vit_base_patch16_224:
 *
 *     x -> patch_embed, cls_token in front, + pos_embed
 *       -> depth blocks { x += proj(attention(qkv(norm1 x)));  x += fc2(gelu(fc1(norm2 x))) }
 *       -> norm of the class token -> head */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/model/net_model.h"

typedef struct vit_arch {
    size_t image, patch, dim, depth, heads, classes;
} vit_arch;

static const char *const names[] = {
    "vit_cifar_small", "vit_cifar", "deit_tiny", "deit_small", "vit_base", NULL};
static const vit_arch archs[] = {
    {32, 4, 128, 6, 4, 10},
    {32, 4, 192, 6, 3, 10},
    {224, 16, 192, 12, 3, 1000},
    {224, 16, 384, 12, 6, 1000},
    {224, 16, 768, 12, 12, 1000},
};

static void build(const trainer_sizes *sizes, clprune_net *net)
{
    const vit_arch *a = &archs[sizes->arch];
    clprune_net_eps(net, 1e-6f);
    clprune_net_value x = clprune_net_images(net, 3, sizes->image, sizes->image);
    x = clprune_net_patch_embed(net, "patch_embed.proj", x, (size_t)sizes->extra[0], a->dim);
    x = clprune_net_class_token(net, "cls_token", x);
    x = clprune_net_positions(net, "pos_embed", x);
    for (size_t i = 0; i < a->depth; ++i) {
        const bool last = i + 1 == a->depth;
        char part[32];
        (void)snprintf(part, sizeof part, "blocks.%zu", i);
        clprune_net_part(net, part);
        clprune_net_value t = clprune_net_layer_norm(net, "norm1", x);
        t = clprune_net_linear(net, "attn.qkv", t, 3 * a->dim);
        t = clprune_net_attention(
            net, "attn", t, &(clprune_net_attn){.heads = a->heads, .queries = last ? 1 : 0});
        t = clprune_net_linear(net, "attn.proj", t, a->dim);
        if (last) /* only the class token is read */
            x = clprune_net_row(net, "cls", x, 0);
        x = clprune_net_add(net, "sum1", x, t);
        t = clprune_net_layer_norm(net, "norm2", x);
        t = clprune_net_linear(net, "mlp.fc1", t, 4 * a->dim);
        t = clprune_net_gelu(net, "mlp.act", t);
        t = clprune_net_linear(net, "mlp.fc2", t, a->dim);
        x = clprune_net_add(net, "sum2", x, t);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_layer_norm(net, "norm", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, sizes->classes));
}

/* Normal with deviation 0.02, cut off at two of them; class token 1e-6, biases 0. */
static double draw(rng *r, const trainer_sizes *sizes, const clprune_net_weight *weight)
{
    (void)sizes;
    if (strcmp(weight->name, "cls_token") == 0)
        return 1e-6 * rng_normal(r);
    if (weight->rank > 1) {
        double x = rng_normal(r);
        while (fabs(x) > 2)
            x = rng_normal(r);
        return 0.02 * x;
    }
    return strstr(weight->name, "norm") != NULL && strstr(weight->name, ".weight") != NULL ? 1 : 0;
}

/* timm has class token and positions for a batch of 1. */
static size_t in_files(const trainer_sizes *sizes, trainer_weight *piece)
{
    const bool cls = strcmp(piece->name, "cls_token") == 0;
    (void)sizes;
    if (cls || strcmp(piece->name, "pos_embed") == 0) {
        piece->rank = 3;
        piece->shape[0] = 1;
        piece->shape[1] = cls ? 1 : piece->mat.rows;
        piece->shape[2] = piece->mat.cols;
    }
    return 1;
}

static keep_table keep = {NET_MODEL_KEEP};
static net_model_tensors tensors;
static const net_model_parts parts = {build, draw, in_files, &keep, &tensors};

static const char *settle(trainer_sizes *sizes)
{
    const vit_arch *usual = &archs[sizes->arch];
    net_model_usual(sizes, usual->image, usual->classes, usual->patch);
    if (sizes->image > 1 << 12 || sizes->classes > 1 << 20)
        return "the image size must be from 1 to 4096, with up to 2^20 classes";
    if (sizes->image % sizes->extra[0] != 0)
        return "the image size is not a multiple of the patch size";
    return net_model_settle(&parts, sizes);
}

static clprune_status create(clprune_context *context, const trainer_sizes *sizes,
    const keep_choice *choice, size_t batch, void **model)
{
    return net_model_create(&parts, context, sizes, choice, batch, model);
}

static const trainer_extra extras[] = {{"patch-size", "patch_size", 1, 4096,
    "pixels per side of a patch; default: the architecture's"}};

static const char *const defaults[][2] = {{"lr", "0.001"}, {"clip-norm", "1"}, {NULL, NULL}};

extern const trainer_model vit_model;
const trainer_model vit_model = {
    .program = "vit-train",
    .about =
        "Trains a vision transformer on images, on any OpenCL device. The activations that the\n"
        "backward pass reads are kept dense, pruned in blocks, as codes, or in part: the rest is\n"
        "recomputed.\n",
    .archs = names,
    .arch = 0, /* vit_cifar_small */
    .extras = extras,
    .extras_count = sizeof extras / sizeof *extras,
    .keep = &keep,
    .defaults = defaults,
    .settle = settle,
    .create = create,
    NET_MODEL_FUNCTIONS,
};
