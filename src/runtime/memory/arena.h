/* The arena of clprune_context_use_plan: OpenCL buffers ("slabs"), whose sub-buffers are handed out
 * in place of buffers of their own. The device limits the size of a slab. */
#ifndef CLPRUNE_RUNTIME_ARENA_H
#define CLPRUNE_RUNTIME_ARENA_H

#include <stdbool.h>

#include "clprune/memory.h"

#define CLPRUNE__ARENA_ALIGN 1024 /* bytes; places start and end at multiples */
#define CLPRUNE__ARENA_SLABS 64

typedef struct clprune__place {
    clprune_memory_category category;
    char *name;
    uint64_t bytes, offset;
    bool taken;
} clprune__place;

typedef struct clprune__slab {
    cl_mem buffer;
    cl_mem whole;         /* it, or what it is a sub-buffer of: places are sub-buffers of `whole` */
    size_t origin, bytes; /* of the slab in `whole` */
} clprune__slab;

typedef struct clprune__arena {
    bool used;           /* a plan was given to the context */
    uint64_t slab_bytes; /* slab i begins at offset i * slab_bytes of the plan */
    clprune__slab slabs[CLPRUNE__ARENA_SLABS];
    size_t slabs_count; /* 0: no plan, an empty one, or poison mode */
    clprune__place *places;
    size_t count;
} clprune__arena;

/* Sets *planned to whether the plan has a free place of this category, name and size, and *buffer
 * to a sub-buffer there, which the caller releases. *buffer is NULL without a place, and always in
 * poison mode, where no memory is shared: the caller then allocates as usual. */
clprune_status clprune__arena_take(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer, bool *planned);

/* Whether a sub-buffer of `whole` that begins at `origin` is a place. */
bool clprune__arena_owns(const clprune_context *context, cl_mem whole, size_t origin);

/* Forgets all places: later buffers are allocated as usual, buffers that have a place keep it. */
void clprune__arena_close(clprune_context *context);

#endif
