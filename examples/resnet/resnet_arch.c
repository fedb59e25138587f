#include "resnet_arch.h"

#include <stdio.h> /* snprintf */

#include "trainer/model/trainer_model.h"

static const resnet_arch archs[] = {
    {"resnet18", 224, 1000, true, 4, {2, 2, 2, 2}, {64, 128, 256, 512}},
    {"resnet34", 224, 1000, true, 4, {3, 4, 6, 3}, {64, 128, 256, 512}},
    {"resnet18_cifar", 32, 10, false, 4, {2, 2, 2, 2}, {64, 128, 256, 512}},
    {"resnet20", 32, 10, false, 3, {3, 3, 3}, {16, 32, 64}},
};

const char *const resnet_arch_names[] = {
    "resnet18", "resnet34", "resnet18_cifar", "resnet20", NULL};

resnet_arch resnet_arch_at(size_t index)
{
    return archs[index];
}

resnet_arch resnet_arch_of(const trainer_sizes *sizes)
{
    resnet_arch arch = resnet_arch_at(sizes->arch);
    arch.image = sizes->image;
    arch.classes = sizes->classes;
    return arch;
}

static size_t half(size_t side)
{
    return (side + 1) / 2;
}

const char *resnet_arch_check(const resnet_arch *arch)
{
    if (arch->image == 0 || arch->image > 4096)
        return "the image size must be from 1 to 4096";
    if (arch->classes < 2 || arch->classes > 1000000)
        return "there must be 2 to 1000000 classes";
    return NULL;
}

size_t resnet_arch_blocks(const resnet_arch *arch)
{
    size_t blocks = 0;
    for (size_t s = 0; s < arch->stages; ++s)
        blocks += arch->blocks[s];
    return blocks;
}

size_t resnet_arch_first_side(const resnet_arch *arch)
{
    return arch->pools ? half(half(arch->image)) : arch->image;
}

size_t resnet_arch_units(const resnet_arch *arch, resnet_unit *units)
{
    size_t count = 0, block = 0, side = resnet_arch_first_side(arch), in = arch->channels[0];
    units[count++] = (resnet_unit){.role = RESNET_STEM,
        .conv = "conv1",
        .norm = "bn1",
        .in = RESNET_CHANNELS,
        .out = in,
        .kernel = arch->pools ? 7 : 3,
        .stride = arch->pools ? 2 : 1,
        .padding = arch->pools ? 3 : 1,
        .from = arch->image,
        .to = arch->pools ? half(arch->image) : arch->image};
    for (size_t s = 0; s < arch->stages; ++s)
        for (size_t b = 0; b < arch->blocks[s]; ++b, ++block) {
            const size_t out = arch->channels[s], stride = s > 0 && b == 0 ? 2 : 1;
            const size_t to = stride == 2 ? half(side) : side;
            const unsigned stage = (unsigned)s + 1, number = (unsigned)b;
            for (resnet_role role = RESNET_CONV1; role <= RESNET_DOWN; ++role) {
                const bool down = role == RESNET_DOWN, first = role == RESNET_CONV1;
                resnet_unit *u = &units[count];
                if (down && stride == 1 && in == out)
                    continue;
                *u = (resnet_unit){.role = role,
                    .block = block,
                    .in = role == RESNET_CONV2 ? out : in,
                    .out = out,
                    .kernel = down ? 1 : 3,
                    .stride = role == RESNET_CONV2 ? 1 : stride,
                    .padding = down ? 0 : 1,
                    .from = role == RESNET_CONV2 ? to : side,
                    .to = to};
                (void)snprintf(u->conv, sizeof u->conv, "layer%u.%u.%s", stage, number,
                    down ? "downsample.0" : (first ? "conv1" : "conv2"));
                (void)snprintf(u->norm, sizeof u->norm, "layer%u.%u.%s", stage, number,
                    down ? "downsample.1" : (first ? "bn1" : "bn2"));
                ++count;
            }
            side = to;
            in = out;
        }
    return count;
}

size_t resnet_arch_tensors(const resnet_arch *arch)
{
    resnet_unit units[RESNET_UNITS];
    return 3 * resnet_arch_units(arch, units) + 2;
}

model_tensor resnet_arch_tensor(const void *of, size_t index)
{
    const resnet_arch *arch = of;
    resnet_unit units[RESNET_UNITS];
    const size_t count = resnet_arch_units(arch, units);
    const size_t head[] = {arch->classes, arch->channels[arch->stages - 1], 0, 0};
    model_tensor tensor;
    if (index >= 3 * count) {
        const bool weight = index == 3 * count;
        tensor = weight ? model_tensor_of("", "fc.weight", RESNET_HEAD_WEIGHT, 2, head)
                        : model_tensor_of("", "fc.bias", RESNET_HEAD_BIAS, 1, head);
        tensor.head = true;
        return tensor;
    }
    const resnet_unit *u = &units[index / 3];
    const size_t shape[] = {u->out, u->in, u->kernel, u->kernel};
    switch (index % 3) {
    case 0:
        tensor = model_tensor_of(u->conv, ".weight", RESNET_CONV_WEIGHT, 4, shape);
        tensor.channels_last = true;
        return tensor;
    case 1:
        return model_tensor_of(u->norm, ".weight", RESNET_GAMMA, 1, shape);
    default:
        return model_tensor_of(u->norm, ".bias", RESNET_BETA, 1, shape);
    }
}

model_tensors resnet_arch_all(const resnet_arch *arch)
{
    return (model_tensors){
        .arch = arch, .count = resnet_arch_tensors(arch), .at = resnet_arch_tensor};
}

uint64_t resnet_arch_parameters(const resnet_arch *arch)
{
    const model_tensors all = resnet_arch_all(arch);
    return model_params_elements(&all);
}
