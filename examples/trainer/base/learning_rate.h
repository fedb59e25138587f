/*
 * learning_rate.h: the learning rate of each step: a linear warm-up, then half a cosine
 * (clprune/schedule.h); or a constant that drops to a tenth at each milestone, a fraction of all
 * steps; or lines between points.
 */
#ifndef TRAINER_LEARNING_RATE_H
#define TRAINER_LEARNING_RATE_H

#include <clprune/schedule.h>

#include "trainer/base/fault.h"

enum { MILESTONES_MOST = 8, MILESTONES_TEXT = 1000 /* characters */ };

/* A factor of the rate at a fraction of all steps. */
typedef struct rate_point {
    double at, factor;
} rate_point;

typedef struct learning_rate {
    clprune_schedule schedule;
    size_t count; /* of milestones; 0: the cosine, or lines */
    double milestones[MILESTONES_MOST];
    size_t points_count; /* 0: no lines */
    rate_point points[MILESTONES_MOST];
} learning_rate;

/* Reads "0.5,0.75": increasing fractions above 0 and below 1. Faults: CODE_USAGE. */
bool learning_rate_milestones(const char *text, learning_rate *rate, fault *f);

/* Reads "0:0.2,0.25:1,1:0": points at increasing fractions, the first at 0 and the last at 1, with
 * factors from 0 to 1000. Faults: CODE_USAGE. */
bool learning_rate_points(const char *text, learning_rate *rate, fault *f);

/* The rate of step 0, 1, ... With points schedule.base * the factor at step / total, on the line
 * between two of them; there is no warm-up. With milestones: schedule.base * 0.1^k after the
 * warm-up, with k the number of milestones that satisfy step >= milestone * total, rounded to whole
 * steps. */
double learning_rate_at(const learning_rate *rate, uint64_t step);

#endif
