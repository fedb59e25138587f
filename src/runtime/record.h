/* The commands that a dry context has noted, from which clprune_plan_create makes a plan. */
#ifndef CLPRUNE_RUNTIME_RECORD_H
#define CLPRUNE_RUNTIME_RECORD_H

#include <stdbool.h>

#include "clprune/context.h"

typedef struct clprune__record {
    uint64_t commands;     /* noted so far */
    uint64_t *scratch;     /* (commands) bytes borrowed while each was enqueued */
    size_t capacity;       /* of `scratch` */
    bool begun;            /* clprune_plan_begin was called */
    uint64_t planned_from; /* then: buffers with number >= planned_from are planned */
} clprune__record;

/* The device of a dry context that was given none: this machine's processors, with vectors of 16
 * floats. */
clprune_device_info clprune__dry_device(void);

/* Handles in place of buffers. */
extern const clprune_allocator clprune__dry_allocator;

void clprune__record_close(clprune_context *context);

#endif
