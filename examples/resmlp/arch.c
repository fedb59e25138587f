#include "arch.h"

#include <stdio.h> /* snprintf */

#include "trainer/run/trainer_model.h"

/* Sizes and initial values of the first four as in the authors' code, facebookresearch/deit. */
static const resmlp_arch archs[] = {
    /* name        image patch  dim depth hidden classes scale deviation */
    {"resmlp_s12", 224, 16, 384, 12, 1536, 1000, 0.1, 0.02},
    {"resmlp_s24", 224, 16, 384, 24, 1536, 1000, 1e-5, 0.02},
    {"resmlp_s36", 224, 16, 384, 36, 1536, 1000, 1e-6, 0.02},
    {"resmlp_b24", 224, 8, 768, 24, 3072, 1000, 1e-6, 0.02},
    {"resmlp_tiny", 32, 4, 128, 6, 512, 10, 0.1, 0},
};

const char *const resmlp_arch_names[] = {
    "resmlp_s12", "resmlp_s24", "resmlp_s36", "resmlp_b24", "resmlp_tiny", NULL};

resmlp_arch resmlp_arch_at(size_t index)
{
    return archs[index];
}

resmlp_arch resmlp_arch_of(const trainer_sizes *sizes)
{
    resmlp_arch arch = archs[sizes->arch];
    arch.image = sizes->image;
    arch.classes = sizes->classes;
    arch.patch = (size_t)sizes->extra[0];
    return arch;
}

const char *resmlp_arch_check(const resmlp_arch *arch)
{
    const size_t most = 1u << 20; /* keeps every product below 2^60 */
    const size_t sizes[] = {
        arch->image, arch->patch, arch->dim, arch->depth, arch->hidden, arch->classes};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        if (sizes[i] == 0 || sizes[i] > most)
            return "a size is zero or above 2^20";
    if (arch->image % arch->patch != 0)
        return "the image size is not a multiple of the patch size";
    if (resmlp_arch_tokens(arch) > most)
        return "there are more than 2^20 tokens";
    return NULL;
}

size_t resmlp_arch_tokens(const resmlp_arch *arch)
{
    const size_t side = arch->image / arch->patch;
    return side * side;
}

size_t resmlp_arch_tensors(const resmlp_arch *arch)
{
    return RESMLP_STEM_TENSORS + RESMLP_BLOCK_TENSORS * arch->depth + 4;
}

static void name_tensor(resmlp_tensor *tensor, const char *prefix, const char *name)
{
    (void)snprintf(tensor->name, sizeof tensor->name, "%s%s", prefix, name);
}

static resmlp_tensor vector(const char *prefix, const char *name, resmlp_kind kind, size_t n)
{
    resmlp_tensor tensor = {.kind = kind, .dims = {n, 1, 1, 1}, .rank = 1, .rows = 1, .cols = n};
    name_tensor(&tensor, prefix, name);
    return tensor;
}

/* alpha and beta of an affine are (1, 1, d) in timm. */
static resmlp_tensor affine(const char *prefix, const char *name, resmlp_kind kind, size_t d)
{
    resmlp_tensor tensor = {.kind = kind, .dims = {1, 1, d, 1}, .rank = 3, .rows = 1, .cols = d};
    name_tensor(&tensor, prefix, name);
    return tensor;
}

static resmlp_tensor matrix(const char *prefix, const char *name, size_t out, size_t in)
{
    resmlp_tensor tensor = {
        .kind = RESMLP_WEIGHT, .dims = {out, in, 1, 1}, .rank = 2, .rows = out, .cols = in};
    name_tensor(&tensor, prefix, name);
    return tensor;
}

static resmlp_tensor stem_weight(const resmlp_arch *arch)
{
    const size_t k = arch->patch;
    resmlp_tensor tensor = {.kind = RESMLP_STEM_WEIGHT,
        .dims = {arch->dim, RESMLP_CHANNELS, k, k},
        .rank = 4,
        .rows = arch->dim,
        .cols = RESMLP_CHANNELS * k * k};
    name_tensor(&tensor, "", "stem.proj.weight");
    return tensor;
}

static resmlp_tensor block_tensor(const resmlp_arch *arch, size_t block, size_t index)
{
    const size_t d = arch->dim, p = resmlp_arch_tokens(arch), hidden = arch->hidden;
    char prefix[32];
    (void)snprintf(prefix, sizeof prefix, "blocks.%zu.", block);
    switch (index) {
    case 0:
        return vector(prefix, "ls1", RESMLP_SCALE, d);
    case 1:
        return vector(prefix, "ls2", RESMLP_SCALE, d);
    case 2:
        return affine(prefix, "norm1.alpha", RESMLP_ALPHA, d);
    case 3:
        return affine(prefix, "norm1.beta", RESMLP_BETA, d);
    case 4:
        return matrix(prefix, "linear_tokens.weight", p, p);
    case 5:
        return vector(prefix, "linear_tokens.bias", RESMLP_BIAS, p);
    case 6:
        return affine(prefix, "norm2.alpha", RESMLP_ALPHA, d);
    case 7:
        return affine(prefix, "norm2.beta", RESMLP_BETA, d);
    case 8:
        return matrix(prefix, "mlp_channels.fc1.weight", hidden, d);
    case 9:
        return vector(prefix, "mlp_channels.fc1.bias", RESMLP_BIAS, hidden);
    case 10:
        return matrix(prefix, "mlp_channels.fc2.weight", d, hidden);
    default:
        return vector(prefix, "mlp_channels.fc2.bias", RESMLP_BIAS, d);
    }
}

resmlp_tensor resmlp_arch_tensor(const resmlp_arch *arch, size_t index)
{
    if (index == 0)
        return stem_weight(arch);
    if (index == 1)
        return vector("", "stem.proj.bias", RESMLP_STEM_BIAS, arch->dim);
    index -= RESMLP_STEM_TENSORS;
    if (index < RESMLP_BLOCK_TENSORS * arch->depth)
        return block_tensor(arch, index / RESMLP_BLOCK_TENSORS, index % RESMLP_BLOCK_TENSORS);
    switch (index - RESMLP_BLOCK_TENSORS * arch->depth) {
    case 0:
        return affine("", "norm.alpha", RESMLP_ALPHA, arch->dim);
    case 1:
        return affine("", "norm.beta", RESMLP_BETA, arch->dim);
    case 2:
        return matrix("", "head.weight", arch->classes, arch->dim);
    default:
        return vector("", "head.bias", RESMLP_BIAS, arch->classes);
    }
}

uint64_t resmlp_arch_parameters(const resmlp_arch *arch)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < resmlp_arch_tensors(arch); ++i) {
        const resmlp_tensor tensor = resmlp_arch_tensor(arch, i);
        sum += (uint64_t)tensor.rows * tensor.cols;
    }
    return sum;
}
