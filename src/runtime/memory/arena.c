#include "runtime/memory/arena.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

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
    if (arena->slabs_count == 0) { /* poison mode: the buffer lies elsewhere */
        place->taken = true;
        return CLPRUNE_SUCCESS;
    }
    const clprune__slab *slab = &arena->slabs[place->offset / arena->slab_bytes];
    const cl_buffer_region region = {
        slab->origin + (size_t)(place->offset % arena->slab_bytes), bytes > 0 ? bytes : 1};
    cl_int code;
    *buffer = clCreateSubBuffer(slab->whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    TRY_CODE("clCreateSubBuffer", code);
    place->taken = true;
    return CLPRUNE_SUCCESS;
}

bool clprune__arena_owns(const clprune_context *context, cl_mem whole, size_t origin)
{
    const clprune__arena *arena = context->arena;
    for (size_t i = 0; i < arena->slabs_count; i++) {
        const clprune__slab *slab = &arena->slabs[i];
        if (whole == slab->whole && origin >= slab->origin && origin - slab->origin < slab->bytes)
            return true;
    }
    return false;
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
