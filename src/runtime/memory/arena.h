/* The arena of clprune_context_use_plan: OpenCL buffers ("slabs"), in which buffers have places.
 * The device limits the size of a slab.
 *
 * A buffer with a place is a handle of the library, which stands for a window: a slab, and the byte
 * where the place begins. Places that are never live at once may be the same bytes, so only the
 * handle tells them apart: in the ledger, in checks for aliases, and among an optimizer's bundles.
 * clprune__window_of gives the window where a command is enqueued; OpenCL never sees the handle. */
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

/* Where a buffer lies for OpenCL. */
typedef struct clprune__window {
    cl_mem whole;  /* an OpenCL buffer */
    size_t origin; /* byte of it where the buffer begins: for a place, a multiple of
                      CLPRUNE__ARENA_ALIGN */
} clprune__window;

typedef struct clprune__arena {
    bool used;           /* a plan was given to the context */
    uint64_t slab_bytes; /* slab i begins at offset i * slab_bytes of the plan */
    cl_mem slabs[CLPRUNE__ARENA_SLABS];
    size_t slabs_count; /* 0: no plan, an empty one, or no buffers share a place (is_apart) */
    clprune__place *places;
    size_t count;
} clprune__arena;

/* Sets *planned to whether the plan has a free place of this category, name and size, and *buffer
 * to a handle of it, for clprune__arena_free. *buffer is NULL without a place, and always where no
 * memory is shared (context->is_apart): the caller then allocates as usual. */
clprune_status clprune__arena_take(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer, bool *planned);

/* Frees the handle of a place. Commands in flight may still use the place: its slab stays. */
void clprune__arena_free(cl_mem buffer);

/* The window of any buffer: that of a place, else the buffer itself from byte 0 on. Accepts NULL.
 */
clprune__window clprune__window_of(cl_mem buffer);

/* Whether a buffer is the handle of a place; then *bytes is its size. */
bool clprune__is_place(cl_mem buffer, size_t *bytes);

/* Forgets all places: later buffers are allocated as usual, buffers that have a place keep it. */
void clprune__arena_close(clprune_context *context);

#endif
