/* Learning-rate schedule: linear warm-up, then half a cosine (arXiv 1608.03983). */
#ifndef CLPRUNE_SCHEDULE_H
#define CLPRUNE_SCHEDULE_H

#include <stdint.h>

#include "clprune/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise it, then set the fields. */
typedef struct clprune_schedule {
    double base, min; /* learning rates at the end of the warm-up and at the end of training */
    uint64_t warmup, total; /* steps; warmup <= total */
    uint64_t reserved[2];   /* zeros */
} clprune_schedule;

/* The learning rate of step t = 0, 1, ...: base * (t + 1) / warmup while t < warmup, then
 * min + (base - min) / 2 * (1 + cos(pi * (t - warmup) / (total - warmup))), and min from total on.
 * 0 for NULL. NaN, which clprune_optimizer_step refuses, if a reserved field is not zero. */
CLPRUNE_API double clprune_schedule_lr(const clprune_schedule *schedule, uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
