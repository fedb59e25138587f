/*
 * resnet_keep.h: the tensors of a ResNet that can be kept from the forward to the backward pass,
 * and the presets.
 *
 *     block:  conv1 = W1 x          relu1 = max(bn1(conv1), 0)     conv2 = W2 relu1
 *             downsample = Wd x     out = max(bn2(conv2) + shortcut, 0), the next block's x
 *             mask1, mask2: the signs of the arguments of these two maxima
 *     stem:   image                 conv = W image                 relu = max(bn(conv), 0)
 *             pool = max pool of relu, the first block's x (relu, if there is no pool)
 *     last:   out, of the last block
 *
 * The input of a convolution (image, x, relu1) may have any form: only the weight gradient depends
 * on it. Batch norm's gradient needs the output (conv, conv1, conv2, downsample). Pixels are rows.
 */
#ifndef RESNET_KEEP_H
#define RESNET_KEEP_H

#include "resnet_arch.h"
#include "trainer/options/keep_table.h"

typedef enum resnet_keep {
    KEEP_CONV1,
    KEEP_RELU1,
    KEEP_CONV2,
    KEEP_DOWN, /* no rows where the shortcut is x */
    KEEP_OUT,  /* no rows in the last block: KEEP_LAST */
    KEEP_MASK1,
    KEEP_MASK2,
    KEEP_IN_BLOCK, /* number of entries of a block */
    KEEP_IMAGE = KEEP_IN_BLOCK,
    KEEP_STEM,
    KEEP_STEM_RELU,
    KEEP_POOL, /* no rows without a pool */
    KEEP_STEM_MASK,
    KEEP_LAST,
    KEEP_ALL
} resnet_keep;

extern const keep_table resnet_keep_table;

/* The size of an entry for one sample: side^2 pixels x channels; side 0: it has no rows. */
typedef struct resnet_shape {
    size_t side, channels;
} resnet_shape;

resnet_shape resnet_keep_shape(const resnet_arch *arch, size_t block, size_t entry);

/* keep_table.check: recomputed signs must be those of the forward pass. */
bool resnet_keep_check(const resnet_arch *arch, size_t block, const keep_rule *rules, size_t *other,
    char *why, size_t size);

#endif
