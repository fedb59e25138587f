/*
 * memory_plan.h: what a run will hold on the device, known before it starts: the steps of training
 * and testing are enqueued in a context without a device, and what dies within a step is placed in
 * one arena (see clprune/plan.h).
 */
#ifndef TRAINER_MEMORY_PLAN_H
#define TRAINER_MEMORY_PLAN_H

#include "trainer/session/session.h"

/* A part of a training step: the commands from `first` up to the next part's. */
typedef struct memory_part {
    char name[64]; /* "forward blocks.3" */
    uint64_t first;
} memory_part;

typedef struct memory_plan {
    bool only_tests; /* no step is planned but a test */
    bool refused;    /* making it failed: the model takes no pass over so few samples */
    clprune_plan *plan;
    clprune_plan_totals totals;
    uint64_t live[CLPRUNE_MEMORY_CATEGORIES]; /* bytes, without sharing of places */
    memory_part *parts; /* of the last pass of a step on a whole batch, or of a test */
    size_t parts_count, parts_room;
    uint64_t
        first; /* command of that step, which is the plan's first, behind the model's creation */
    uint64_t commands; /* up to its end */
    uint64_t programs; /* that this step needs, without CLBlast's own */
} memory_plan;

/* Plans the run of s->options, whose data and architecture are known, on a device such as that
 * (NULL: a CPU like this machine's). On failure *plan needs no closing. */
bool memory_plan_make(
    const session *s, const clprune_device_info *device, memory_plan *plan, fault *f);

/* The same. With --memory-limit it first chooses what was not given, the mildest preset of
 * --activations that fits or the largest batch, changes s->options and reports the choice. If
 * nothing fits, the fault is CODE_MEMORY. */
bool memory_plan_choose(session *s, const clprune_device_info *device, memory_plan *plan, fault *f);

void memory_plan_close(memory_plan *plan);

/* All bytes that the run holds at its peak. */
uint64_t memory_plan_bytes(const memory_plan *plan);

/* --plan: plans, prints peak and timeline to stdout, with --plan-device also times, writes
 * --plan-csv. Needs no device. If there is one, and no --plan-device, the device of the run is
 * opened to read its properties. --activations auto measures on it. */
bool memory_plan_run(options *o, fault *f);

#endif
