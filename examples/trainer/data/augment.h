/*
 * augment.h: random crop and mirror, the usual augmentation for CIFAR (He et al., CVPR 2016,
 * section 4.2).
 *
 * The image gets a black border of S/8 pixels (4 at S = 32). A random S x S window of the result is
 * taken and, with probability 1/2, mirrored left to right. The draw depends on (seed, epoch, index)
 * alone.
 */
#ifndef TRAINER_AUGMENT_H
#define TRAINER_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct augment_options {
    uint64_t seed;
    uint32_t epoch;
} augment_options;

/* The position of the window, and whether it is then mirrored. {0, 0, false} does not change the
 * image. */
typedef struct augment_move {
    int32_t down, right; /* -S/8 ... S/8 from the centred window */
    bool mirror;
} augment_move;

augment_move augment_draw(const augment_options *options, uint32_t index, uint32_t image_size);

/*
 * Moves one image.
 *
 * pixels  (3, S, S)
 * image   (3, S, S), written; must not overlap pixels. The border is black, byte 0
 */
void augment_apply(augment_move move, uint32_t image_size, const uint8_t *pixels, uint8_t *image);

#endif
