/*
 * augment.h: random crop and mirror, the usual augmentation for CIFAR (He et al., CVPR 2016,
 * section 4.2), random erasing (Zhong et al., arXiv 1708.04896), mixup (Zhang et al., arXiv
 * 1710.09412) and CutMix (Yun et al., arXiv 1905.04899).
 *
 * The image gets a border of `shift` pixels, S/8 (4 at S = 32) unless it is given: black, or the
 * image reflected at its outermost pixels. A random S x S window of the result is taken and, with
 * probability 1/2, mirrored left to right. The draw depends on (seed, epoch, index) alone.
 */
#ifndef TRAINER_AUGMENT_H
#define TRAINER_AUGMENT_H

#include <stdbool.h>
#include <stddef.h> /* size_t */
#include <stdint.h>

/* The position of the window, and whether it is then mirrored. {0, 0, false} does not change the
 * image. */
typedef struct augment_move {
    int32_t down, right; /* -shift ... shift from the centred window */
    bool mirror;
} augment_move;

typedef struct augment_options {
    uint64_t seed;
    uint32_t epoch;
    uint32_t shift; /* 0: S/8; below S */
    bool reflects;
    bool alternates;           /* mirrors are drawn for epoch 0, and change with each epoch */
    const augment_move *fixed; /* of all images; NULL: it is drawn */
    uint32_t rand_augment;     /* magnitude of rand_augment.h; 0: off */
    double erase;              /* probability that a rectangle of an image is erased */
    double mixup, cutmix;      /* their alpha; 0: off; with both, half of the images have either */
} augment_options;

augment_move augment_draw(const augment_options *options, uint32_t index, uint32_t image_size);

/*
 * Moves one image.
 *
 * pixels  (3, S, S)
 * image   (3, S, S), written; must not overlap pixels
 */
void augment_apply(
    augment_move move, bool reflects, uint32_t image_size, const uint8_t *pixels, uint8_t *image);

/* A rectangle of an image, in pixels; of no height: none. */
typedef struct augment_box {
    uint32_t top, left, height, width;
} augment_box;

/* What is erased of an image: with probability `erase` a rectangle of 2 to 33 % of its area, whose
 * sides have a ratio of 0.3 to 1 / 0.3, the logarithm of it uniform, at any place where it fits.
 * The draw depends on (seed, epoch, index) alone. */
augment_box augment_draw_box(const augment_options *options, uint32_t index, uint32_t image_size);

/* Writes `fill`, a byte for each channel, into a rectangle. image: (3, S, S) */
void augment_erase(augment_box box, uint32_t image_size, const uint8_t fill[3], uint8_t *image);

/* What an image is mixed with: another one of the same split, whose pixels take the place of its
 * own in `box` (CutMix) or, without a box, are added with the weight 1 - share (mixup). */
typedef struct augment_mix {
    uint32_t other;
    uint32_t share; /* of the image and its label: this / AUGMENT_WHOLE */
    augment_box box;
} augment_mix;

enum { AUGMENT_WHOLE = 1 << 16 };

/* The share is drawn from Beta(alpha, alpha). A box with 1 - share of the area lies around any
 * pixel, as far as it is in the image; then the share is what is left of that. The draw depends on
 * (seed, epoch, index) alone. count: images of the split. */
augment_mix augment_draw_mix(
    const augment_options *options, uint32_t index, uint32_t count, uint32_t image_size);

/* image, other: (3, S, S). Mixup rounds to the nearest byte. */
void augment_mix_images(
    const augment_mix *mix, uint32_t image_size, const uint8_t *other, uint8_t *image);

/* How an image is seen in tests, and what its logits count in their mean. */
typedef struct augment_view {
    augment_move move;
    float weight;
} augment_view;

/* `count` views: 1, the image; 2, and its mirror image; 6, half of the mean of those, half that of
 * the image moved by (-1, -1) and by (1, 1) with reflection, and their mirror images. */
const augment_view *augment_views(size_t count);

#endif
