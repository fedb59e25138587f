/*
 * resnet_arch.h: what a ResNet of basic blocks looks like (He et al., arXiv 1512.03385): its sizes,
 * and the names and shapes of its parameters. Arithmetic only: no device, no memory.
 *
 *     x -> stem convolution, batch norm, ReLU (, max pool)
 *       -> blocks { r = relu(bn1(conv1 x));  x = relu(bn2(conv2 r) + shortcut x) }
 *       -> mean over the pixels -> head
 *
 * The shortcut is x itself, or where a block changes the size bn(1 x 1 convolution of x).
 */
#ifndef RESNET_ARCH_H
#define RESNET_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/model/model_params.h"

enum { RESNET_CHANNELS = 3, RESNET_STAGES = 4, RESNET_UNITS = 64 };

typedef struct resnet_arch {
    const char *name;
    size_t image; /* pixels per side */
    size_t classes;
    bool pools; /* stem of 7 x 7 taps, stride 2, and a max pool; else of 3 x 3 taps alone */
    size_t stages, blocks[RESNET_STAGES], channels[RESNET_STAGES];
} resnet_arch;

/* "resnet18", "resnet34", "resnet18_cifar", "resnet20", NULL. */
extern const char *const resnet_arch_names[];

/* The architecture at a position in resnet_arch_names, at its original sizes. */
resnet_arch resnet_arch_at(size_t index);

/* NULL if the sizes make sense, else one phrase that says what is wrong. */
const char *resnet_arch_check(const resnet_arch *arch);

/* The architecture of settled sizes: trainer_model.h. */
resnet_arch resnet_arch_of(const trainer_sizes *sizes);

typedef enum resnet_role { RESNET_STEM, RESNET_CONV1, RESNET_CONV2, RESNET_DOWN } resnet_role;

/* A convolution with its batch norm; images are square. */
typedef struct resnet_unit {
    resnet_role role;
    size_t block;            /* of all blocks; of the stem 0 */
    char conv[48], norm[48]; /* names of the tensors, without ".weight" */
    size_t in, out;          /* channels */
    size_t kernel, stride, padding;
    size_t from, to; /* pixels per side of its input and output */
} resnet_unit;

/* The units: the stem, then of each block conv1, conv2 and the shortcut's convolution, if any.
 * Returns their number, at most RESNET_UNITS. */
size_t resnet_arch_units(const resnet_arch *arch, resnet_unit *units);

size_t resnet_arch_blocks(const resnet_arch *arch);

/* Pixels per side, and channels, of the first block's input. */
size_t resnet_arch_first_side(const resnet_arch *arch);

/* Parameters are named and shaped as in torchvision. Unit i has tensors 3 * i (the convolution's
 * weight), 3 * i + 1 (gamma) and 3 * i + 2 (beta). The head's weight and bias are the last two. */
typedef enum resnet_kind {
    RESNET_CONV_WEIGHT,
    RESNET_GAMMA,
    RESNET_BETA,
    RESNET_HEAD_WEIGHT,
    RESNET_HEAD_BIAS
} resnet_kind;

size_t resnet_arch_tensors(const resnet_arch *arch);
model_tensor resnet_arch_tensor(const void *arch, size_t index); /* arch: a resnet_arch */

/* All of them, without `draw`. */
model_tensors resnet_arch_all(const resnet_arch *arch);

/* Elements of all tensors. resnet18 of 1000 classes: 11,689,512. */
uint64_t resnet_arch_parameters(const resnet_arch *arch);

#endif
