/*
 * rand_augment.h: RandAugment (Cubuk et al., arXiv 1909.13719): of 14 operations on an image, two
 * that are drawn, one after the other. Operations are those that torchvision has for tensors, with
 * its scale of 30 magnitudes, nearest pixels, and black where an image ends.
 */
#ifndef TRAINER_RAND_AUGMENT_H
#define TRAINER_RAND_AUGMENT_H

#include <stdint.h>

#include "trainer/data/augment/augment.h"

enum { RAND_AUGMENT_MOST = 30 };

/* RAND_SHEAR_X to RAND_SHARPNESS take a sign: a negative magnitude reverses the operation. */
typedef enum rand_operation {
    RAND_IDENTITY,
    RAND_SHEAR_X,
    RAND_SHEAR_Y,
    RAND_TRANSLATE_X,
    RAND_TRANSLATE_Y,
    RAND_ROTATE,
    RAND_BRIGHTNESS,
    RAND_COLOUR,
    RAND_CONTRAST,
    RAND_SHARPNESS,
    RAND_POSTERIZE,
    RAND_SOLARIZE,
    RAND_AUTOCONTRAST,
    RAND_EQUALIZE,
    RAND_OPERATIONS
} rand_operation;

/* One operation. magnitude: at most RAND_AUGMENT_MOST; from, to: (3, S, S), which must not overlap.
 */
void rand_augment_apply(
    rand_operation operation, int magnitude, uint32_t image_size, const uint8_t *from, uint8_t *to);

/* Applies two drawn operations of magnitude options->rand_augment; 0: none. image, room: (3, S, S).
 * The draw depends on (seed, epoch, index) alone. */
void rand_augment(const augment_options *options, uint32_t index, uint32_t image_size,
    uint8_t *image, uint8_t *room);

#endif
