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
    bool used;     /* there is a plan, or was */
    cl_mem buffer; /* NULL: none, or nothing is placed in it */
    clprune__place *places;
    size_t count;
} clprune__arena;

/* *planned: there is a place for such a buffer, which is *buffer; it is NULL where what is
 * forgotten is poisoned, for then no place is shared. */
clprune_status clprune__arena_take(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer, bool *planned);

/* No more places are given; those taken stay. */
void clprune__arena_close(clprune_context *context);

#endif
