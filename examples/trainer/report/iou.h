/*
 * iou.h: the mean intersection over union of images with a label for each pixel: of a class, the
 * pixels that have it and are said to have it, over those of which either is true. Pixels without a
 * label do not count, nor do classes that no pixel has or is said to have.
 */
#ifndef TRAINER_IOU_H
#define TRAINER_IOU_H

#include <clprune/clprune.h>

#include "trainer/base/fault.h"

typedef struct iou {
    size_t classes;
    uint64_t *both, *has, *said; /* (classes) pixels */
} iou;

/* On failure *of needs no closing. */
bool iou_open(size_t classes, iou *of, fault *f);
void iou_close(iou *of); /* accepts {0} */

/* Adds pixels. logits: (pixels, classes); labels: (pixels). The largest logit is what is said, of
 * equal ones the first. */
void iou_add(iou *of, size_t pixels, const float *logits, const int32_t *labels);

/* In percent; NaN without pixels. *counted: the classes that count. */
double iou_mean(const iou *of, size_t *counted);

#endif
