/*
 * plan_times.h: the time of a step on a graphics card, estimated on paper. Each command of a plan
 * (clprune_plan_command) takes the longer of its bytes at the card's bandwidth and its
 * multiplications at the card's rate, and a fixed time for the launch. What is left out makes runs
 * slower (operands that kernels read again, groups that idle at the end) or faster (operands that
 * are still in the second-level cache).
 */
#ifndef TRAINER_MEMORY_PLAN_TIMES_H
#define TRAINER_MEMORY_PLAN_TIMES_H

#include "trainer/memory/memory_plan.h"

/* A card's figures, by its data sheet. */
typedef struct plan_card {
    const char *name; /* of the device */
    uint32_t units;
    double gib;      /* of memory */
    double memory;   /* bytes a second */
    double flops[3]; /* a second, by clprune_precision from FP32 on; those of mma.sync */
    double launch;   /* seconds of a command beside its work */
} plan_card;

/* The card of --plan-device, a position in options_plan_devices; NULL for "own". */
const plan_card *plan_card_of(size_t plan_device);

/* The device to plan for. */
clprune_device_info plan_card_device(const plan_card *card);

/* Seconds of a command. */
double plan_card_seconds(const plan_card *card, const clprune_plan_work *work);

/* Prints the commands of the plan's step by kernel to stdout, the longest first; transfers from and
 * to the host are left out. */
bool plan_times_print(const plan_card *card, const memory_plan *plan, fault *f);

#endif
