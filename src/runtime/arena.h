/* The arena of clprune_context_use_plan: one buffer, whose parts take the place of buffers. */
#ifndef CLPRUNE_RUNTIME_ARENA_H
#define CLPRUNE_RUNTIME_ARENA_H

#include <stdbool.h>

#include "clprune/memory.h"

#define CLPRUNE__ARENA_ALIGN 1024 /* bytes, of the places */

typedef struct clprune__place {
    clprune_memory_category category;
    char *name;
    uint64_t bytes, offset;
    bool taken;
} clprune__place;

typedef struct clprune__arena {
    cl_mem buffer; /* NULL: no plan is used */
    clprune__place *places;
    size_t count;
} clprune__arena;

/* *buffer is the planned place of such a buffer, or NULL if there is none to be had. */
clprune_status clprune__arena_take(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer);

/* No more places are given; those taken stay. */
void clprune__arena_close(clprune_context *context);

#endif
