/* A plan, and how its buffers are placed. */
#ifndef CLPRUNE_RUNTIME_PLAN_PRIVATE_H
#define CLPRUNE_RUNTIME_PLAN_PRIVATE_H

#include "clprune/plan.h"
#include "runtime/memory/arena.h"

typedef struct clprune__planned {
    clprune_plan_entry entry; /* name and spans are owned */
    uint64_t room;            /* entry.bytes, rounded up to CLPRUNE__ARENA_ALIGN */
    uint64_t floor;           /* the least offset: the most scratch in its lives */
} clprune__planned;

struct clprune_plan {
    clprune_plan_totals totals;
    clprune__planned *buffers;
    size_t count;
    uint64_t *scratch;       /* (totals.commands) bytes borrowed during each */
    clprune_plan_work *work; /* (totals.commands) */
    uint64_t slab_bytes; /* a multiple of CLPRUNE__ARENA_ALIGN; no place crosses a multiple of it */
    char *setup;         /* the dry context's */
    char *programs;      /* of its commands: clprune__programs_noted */
};

/* Sets all offsets and totals.arena_bytes from the rest of the plan. Scratch lies at offset 0. */
clprune_status clprune__plan_place(clprune_context *context, clprune_plan *plan);

/* Whether a plan places the buffers that are created now, in this context or, if it is dry, in one
 * that runs. Then there may be many: those that are not live at once share places. */
bool clprune__memory_is_planned(const clprune_context *context);

#endif
