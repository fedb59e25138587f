/* The commands that a dry context has noted, from which clprune_plan_create makes a plan. */
#ifndef CLPRUNE_RUNTIME_RECORD_H
#define CLPRUNE_RUNTIME_RECORD_H

#include <stdbool.h>

#include "clprune/plan.h"

/* What a place of the arena is found by. */
typedef struct clprune__label {
    clprune_memory_category category;
    char *name;
    uint64_t bytes;
} clprune__label;

typedef struct clprune__record {
    uint64_t commands;       /* noted so far */
    uint64_t *scratch;       /* (commands) bytes borrowed while each was enqueued */
    clprune_plan_work *work; /* (commands) what each is to do */
    size_t capacity;         /* of both */
    bool begun;              /* clprune_plan_begin was called */
    uint64_t planned_from;   /* then: buffers with number >= planned_from are planned */
    clprune__label *labels;  /* of buffers alive then or released at any time, each once */
    size_t labels_count;
    bool lost; /* there was no memory for a label */
} clprune__record;

/* The device of a dry context that was given none: this machine's processors, with vectors of 16
 * floats. */
clprune_device_info clprune__dry_device(void);

/* Handles in place of buffers. */
extern const clprune_allocator clprune__dry_allocator;

/* Whether a buffer with this label was created before clprune_plan_begin or released since. */
bool clprune__record_has_label(const clprune__record *record, clprune__label label);

/* Adds the label of a buffer. */
void clprune__record_add_label(clprune_context *context, cl_mem buffer);

void clprune__record_close(clprune_context *context);

#endif
