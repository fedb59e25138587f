/* The ledger behind clprune/memory.h: which buffers live, under which category and name. */
#ifndef CLPRUNE_RUNTIME_LEDGER_H
#define CLPRUNE_RUNTIME_LEDGER_H

#include <stdbool.h>

#include "clprune/plan.h"

typedef struct clprune__ledger_entry {
    cl_mem buffer;
    char *name;
    uint64_t bytes;
    clprune_memory_category category;
    bool placed;     /* in the arena, so it is no part of the total */
    bool planned;    /* by the plan in use, placed or not */
    uint64_t number; /* in order of creation, from 0 on */
    /* Of dry contexts: between which commands the contents matter. */
    clprune_plan_span *spans;
    size_t spans_count, spans_capacity;
    bool is_live; /* the last span goes on */
} clprune__ledger_entry;

typedef struct clprune__ledger {
    clprune__ledger_entry *entries; /* in order of creation */
    size_t count, capacity;
    uint64_t created;                                          /* entries there ever were */
    clprune_memory_usage usage[CLPRUNE_MEMORY_CATEGORIES + 1]; /* the last one is the total */
    uint64_t limit;                                            /* bytes; the budget */
} clprune__ledger;

/* What a buffer is booked as: one name, or several that share it. */
typedef struct clprune__ledger_part {
    const char *name; /* copied */
    size_t bytes;
} clprune__ledger_part;

/* clprune_buffer_create of one buffer for `count` >= 1 parts, each an entry of its own. */
clprune_status clprune__buffer_create_shared(clprune_context *context,
    clprune_memory_category category, size_t count, const clprune__ledger_part *parts,
    cl_mem *buffer);

/* The first entry of a buffer behind the entry `last`, or of all where that is NULL; NULL: none. */
clprune__ledger_entry *clprune__ledger_next(
    clprune__ledger *ledger, cl_mem buffer, const clprune__ledger_entry *last);

/* A command of a dry context touches a buffer: a life begins or goes on. Errors: INVALID_ARGUMENT
 * (a buffer that is not booked), OUT_OF_HOST_MEMORY. */
clprune_status clprune__ledger_touch(clprune_context *context, cl_mem buffer, uint64_t command);

/* Its life is over. Errors: INVALID_ARGUMENT. */
clprune_status clprune__ledger_forget(clprune_context *context, cl_mem buffer);

/* Releases every buffer still booked and frees the ledger's own memory. */
void clprune__ledger_close(clprune_context *context);

#endif
