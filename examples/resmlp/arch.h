/*
 * arch.h: what a ResMLP looks like (Touvron et al., arXiv 2105.03404): its sizes, and the names and
 * shapes of its parameters. Arithmetic only: no device, no memory.
 *
 *     x -> stem patch embedding
 *       -> depth blocks { x += ls1 * (W_t (affine1 x));  x += ls2 * fc2(gelu(fc1(affine2 x))) }
 *       -> affine -> mean over tokens -> head
 */
#ifndef RESMLP_ARCH_H
#define RESMLP_ARCH_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/model/model_params.h"

enum {
    RESMLP_CHANNELS = 3,
    RESMLP_STEM_TENSORS = 2,
    RESMLP_BLOCK_TENSORS = 12,
    RESMLP_TAIL_TENSORS = 4
};

typedef struct resmlp_arch {
    const char *name;
    size_t image;     /* pixels per side; a multiple of patch */
    size_t patch;     /* pixels per side of a patch; (image / patch)^2 tokens */
    size_t dim;       /* D, features of a token */
    size_t depth;     /* blocks */
    size_t hidden;    /* features between fc1 and fc2 */
    size_t classes;   /* outputs of the head */
    double scale;     /* LayerScale's initial value */
    double deviation; /* of the initial weights of linear layers; 0: 1 / sqrt(3 * inputs) */
} resmlp_arch;

/* "resmlp_s12", "resmlp_s24", "resmlp_s36", "resmlp_b24", "resmlp_tiny", NULL. */
extern const char *const resmlp_arch_names[];

/* The architecture at a position in resmlp_arch_names, at its original sizes. */
resmlp_arch resmlp_arch_at(size_t index);

/* NULL if the sizes fit each other, else one phrase that says what is wrong. */
const char *resmlp_arch_check(const resmlp_arch *arch);

/* The architecture of settled sizes (trainer_model.h); extra[0] is the patch size. */
resmlp_arch resmlp_arch_of(const trainer_sizes *sizes);

/* (image / patch)^2 */
size_t resmlp_arch_tokens(const resmlp_arch *arch);

/* The kind of a tensor; it decides the initial values. */
typedef enum resmlp_kind {
    RESMLP_STEM_WEIGHT,
    RESMLP_STEM_BIAS,
    RESMLP_WEIGHT, /* of a linear layer */
    RESMLP_BIAS,
    RESMLP_SCALE, /* LayerScale */
    RESMLP_ALPHA, /* of an affine */
    RESMLP_BETA
} resmlp_kind;

/* Parameters are named and shaped as in timm's resmlp_12_224 (whose order is kept, too): 12 * depth
 * + 6 tensors; those of block i start at 2 + 12 * i. `arch` is a resmlp_arch. */
size_t resmlp_arch_tensors(const resmlp_arch *arch);
model_tensor resmlp_arch_tensor(const void *arch, size_t index);

/* All of them, without `draw`. */
model_tensors resmlp_arch_all(const resmlp_arch *arch);

/* Elements of all tensors. S12 at 224 px, patch 16, 1000 classes: 15,350,872. */
uint64_t resmlp_arch_parameters(const resmlp_arch *arch);

#endif
