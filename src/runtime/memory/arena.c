#include "runtime/memory/arena.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

/* What the cl_mem of a place points to. As a dry buffer's, it begins with an address that no
 * driver's object begins with. */
typedef struct handle {
    const void *mark;
    clprune__window window;
    size_t bytes;
} handle;

static const char mark_of_place;

clprune_status clprune__arena_take(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer, bool *planned)
{
    clprune__arena *arena = context->arena;
    clprune__place *place = NULL;
    *buffer = NULL;
    for (size_t i = 0; i < arena->count && place == NULL; i++) {
        clprune__place *p = &arena->places[i];
        if (!p->taken && p->bytes == bytes && p->category == category && strcmp(p->name, name) == 0)
            place = p;
    }
    *planned = place != NULL;
    if (place == NULL)
        return CLPRUNE_SUCCESS;
    if (arena->slabs_count > 0) { /* else the buffer lies elsewhere */
        handle *made = malloc(sizeof *made);
        REQUIRE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the place of %s", name);
        *made = (handle){&mark_of_place,
            {arena->slabs[place->offset / arena->slab_bytes],
                (size_t)(place->offset % arena->slab_bytes)},
            bytes};
        *buffer = (cl_mem)made;
    }
    place->taken = true;
    return CLPRUNE_SUCCESS;
}

void clprune__arena_free(cl_mem buffer)
{
    free(buffer);
}

bool clprune__is_place(cl_mem buffer, size_t *bytes)
{
    const handle *place = (const handle *)buffer;
    if (buffer == NULL || place->mark != &mark_of_place)
        return false;
    *bytes = place->bytes;
    return true;
}

clprune__window clprune__window_of(cl_mem buffer)
{
    size_t bytes;
    return clprune__is_place(buffer, &bytes) ? ((const handle *)buffer)->window
                                             : (clprune__window){buffer, 0};
}

void clprune__arena_close(clprune_context *context)
{
    clprune__arena *arena = context->arena;
    for (size_t i = 0; i < arena->count; i++)
        free(arena->places[i].name);
    free(arena->places);
    arena->places = NULL;
    arena->count = 0;
}
