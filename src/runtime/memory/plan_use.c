/* How a plan becomes the arena of a context. */
#include <stdlib.h>
#include <string.h>

#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/program_cache.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/plan_private.h"
#include "runtime/memory/scratch.h"

static clprune_status add_place(clprune_context *context, clprune_memory_category category,
    const char *name, uint64_t bytes, uint64_t offset)
{
    clprune__arena *arena = context->arena;
    char *copy = strdup(name);
    REQUIRE(copy != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the place of %s", name);
    arena->places[arena->count++] = (clprune__place){category, copy, bytes, offset, false};
    return CLPRUNE_SUCCESS;
}

/* Fails unless the setup is that of the plan's dry context. With other commands a buffer would live
 * longer than planned, with more scratch one would be overwritten. */
static clprune_status check_setup(clprune_context *context, const clprune_plan *plan)
{
    const char *planned = plan->setup, *here = context->setup;
    size_t line = 0, same = 0; /* the line of the first difference, and what is equal before it */
    for (; planned[same] == here[same] && here[same] != '\0'; same++)
        if (here[same] == '\n')
            line = same + 1;
    REQUIRE(planned[same] == here[same], CLPRUNE_INVALID_ARGUMENT,
        "the plan was made for %.*s, the context has %.*s; give clprune_context_create_dry the "
        "clprune_context_device_info, _kernels and _precision of the context",
        (int)strcspn(planned + line, "\n"), planned + line, (int)strcspn(here + line, "\n"),
        here + line);
    return CLPRUNE_SUCCESS;
}

static clprune_status create_slabs(clprune_context *context, const clprune_plan *plan)
{
    const uint64_t bytes = plan->totals.arena_bytes;
    REQUIRE(bytes == 0 || (bytes - 1) / plan->slab_bytes < CLPRUNE__ARENA_SLABS,
        CLPRUNE_UNSUPPORTED,
        "the plan needs %llu bytes in buffers of at most %llu, which are more than %d; run without "
        "a plan",
        (unsigned long long)bytes, (unsigned long long)plan->slab_bytes, CLPRUNE__ARENA_SLABS);
    clprune__arena *arena = context->arena;
    arena->slab_bytes = plan->slab_bytes;
    for (uint64_t at = 0; at < bytes; at += plan->slab_bytes) {
        const uint64_t rest = bytes - at;
        TRY(clprune__buffer_create(context, CLPRUNE_MEMORY_ARENA, "arena",
            (size_t)(rest < plan->slab_bytes ? rest : plan->slab_bytes),
            &arena->slabs[arena->slabs_count]));
        arena->slabs_count++;
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_plan_build(clprune_context *context, const clprune_plan *plan)
{
    ENTER_CONTEXT(context);
    REQUIRE(plan != NULL, CLPRUNE_INVALID_ARGUMENT, "plan is NULL");
    REQUIRE(context->record == NULL, CLPRUNE_INVALID_ARGUMENT,
        "the context is dry; a plan is used in a context with a device");
    TRY(check_setup(context, plan));
    return clprune__programs_prepare(context, plan->programs);
}

clprune_status clprune_context_use_plan(clprune_context *context, const clprune_plan *plan)
{
    ENTER_CONTEXT(context);
    clprune_status status = CLPRUNE_SUCCESS;
    bool began = false;
    REQUIRE_DONE(context->record == NULL, CLPRUNE_INVALID_ARGUMENT,
        "the context is dry; a plan is used in a context with a device");
    if (plan == NULL) {
        clprune__arena_close(context);
        return status;
    }
    clprune__arena *arena = context->arena;
    REQUIRE_DONE(!arena->used, CLPRUNE_INVALID_ARGUMENT, "the context has an arena already");
    TRY_DONE(check_setup(context, plan));
    const clprune_plan_totals *totals = &plan->totals;
    clprune__scratch_close(context); /* what larger operations have left, beside the arena */
    arena->used = true;
    began = true;
    if (!context->is_apart)
        TRY_DONE(create_slabs(context, plan));
    arena->places = calloc(plan->count + 1, sizeof *arena->places);
    REQUIRE_DONE(
        arena->places != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %zu places", plan->count);
    TRY_DONE(add_place(
        context, CLPRUNE_MEMORY_WORKSPACE, CLPRUNE__SCRATCH_NAME, totals->scratch_bytes, 0));
    for (size_t i = 0; i < plan->count; i++) {
        const clprune_plan_entry *entry = &plan->buffers[i].entry;
        TRY_DONE(add_place(context, entry->category, entry->name, entry->bytes, entry->offset));
    }
    TRY_DONE(clprune__scratch_reserve(context, (size_t)totals->scratch_bytes));
done:
    if (status != CLPRUNE_SUCCESS && began) {
        clprune__arena_close(context);
        for (size_t i = 0; i < context->arena->slabs_count; i++)
            clprune__buffer_release(context, context->arena->slabs[i]);
        *context->arena = (clprune__arena){0};
    }
    return status;
}
