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
    bool used;     /* a plan was given to the context */
    cl_mem buffer; /* NULL: no plan, or an empty one */
    clprune__place *places;
    size_t count;
} clprune__arena;

/* Sets *planned to whether the plan has a free place for such a buffer, and *buffer to that place.
 * In poison mode *buffer is NULL: no places are shared, so the buffer is allocated as usual. */
clprune_status clprune__arena_take(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer, bool *planned);

/* Gives no more places; buffers that have one keep it. */
void clprune__arena_close(clprune_context *context);

#endif
