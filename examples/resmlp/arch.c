#include "arch.h"

#include <stdio.h> /* snprintf */
#include <string.h>

#include "trainer/model/trainer_model.h"

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
    return RESMLP_STEM_TENSORS + RESMLP_BLOCK_TENSORS * arch->depth + RESMLP_TAIL_TENSORS;
}

/* The tensors of the stem, of a block, and behind the blocks. Letters are sizes: see size_of. */
static const struct {
    const char *name;
    resmlp_kind kind;
    const char *shape;
} rows[] = {
    {"stem.proj.weight", RESMLP_STEM_WEIGHT, "d3kk"},
    {"stem.proj.bias", RESMLP_STEM_BIAS, "d"},
    {"ls1", RESMLP_SCALE, "d"},
    {"ls2", RESMLP_SCALE, "d"},
    {"norm1.alpha", RESMLP_ALPHA, "11d"},
    {"norm1.beta", RESMLP_BETA, "11d"},
    {"linear_tokens.weight", RESMLP_WEIGHT, "pp"},
    {"linear_tokens.bias", RESMLP_BIAS, "p"},
    {"norm2.alpha", RESMLP_ALPHA, "11d"},
    {"norm2.beta", RESMLP_BETA, "11d"},
    {"mlp_channels.fc1.weight", RESMLP_WEIGHT, "hd"},
    {"mlp_channels.fc1.bias", RESMLP_BIAS, "h"},
    {"mlp_channels.fc2.weight", RESMLP_WEIGHT, "dh"},
    {"mlp_channels.fc2.bias", RESMLP_BIAS, "d"},
    {"norm.alpha", RESMLP_ALPHA, "11d"},
    {"norm.beta", RESMLP_BETA, "11d"},
    {"head.weight", RESMLP_WEIGHT, "cd"},
    {"head.bias", RESMLP_BIAS, "c"},
};

static size_t size_of(const resmlp_arch *arch, char letter)
{
    switch (letter) {
    case 'd':
        return arch->dim;
    case 'p':
        return resmlp_arch_tokens(arch);
    case 'h':
        return arch->hidden;
    case 'c':
        return arch->classes;
    case 'k':
        return arch->patch;
    default:
        return letter == '3' ? RESMLP_CHANNELS : 1;
    }
}

model_tensor resmlp_arch_tensor(const void *of, size_t index)
{
    const resmlp_arch *arch = of;
    const size_t blocks = RESMLP_BLOCK_TENSORS * arch->depth;
    const bool stem = index < RESMLP_STEM_TENSORS;
    const bool block = !stem && index < RESMLP_STEM_TENSORS + blocks;
    size_t row = index, shape[4];
    char prefix[32] = "";
    if (block) {
        row = RESMLP_STEM_TENSORS + (index - RESMLP_STEM_TENSORS) % RESMLP_BLOCK_TENSORS;
        (void)snprintf(prefix, sizeof prefix, "blocks.%zu.",
            (index - RESMLP_STEM_TENSORS) / RESMLP_BLOCK_TENSORS);
    } else if (!stem) {
        row = index - blocks + RESMLP_BLOCK_TENSORS;
    }
    const size_t rank = strlen(rows[row].shape);
    for (size_t i = 0; i < rank; ++i)
        shape[i] = size_of(arch, rows[row].shape[i]);
    model_tensor tensor = model_tensor_of(prefix, rows[row].name, (int)rows[row].kind, rank, shape);
    tensor.head = strncmp(tensor.name, "head.", 5) == 0;
    return tensor;
}

model_tensors resmlp_arch_all(const resmlp_arch *arch)
{
    return (model_tensors){
        .arch = arch, .count = resmlp_arch_tensors(arch), .at = resmlp_arch_tensor};
}

uint64_t resmlp_arch_parameters(const resmlp_arch *arch)
{
    const model_tensors all = resmlp_arch_all(arch);
    return model_params_elements(&all);
}
