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
    bool planned;    /* the plan in use has a place for it, which it has unless is_apart */
    bool is_own;     /* no plan gives it a place */
    uint64_t number; /* in order of creation, from 0 on */
    /* Of dry contexts: the ranges of commands in which the contents matter. */
    clprune_plan_span *spans;
    size_t spans_count, spans_capacity;
    bool is_live; /* the last span is still open */
} clprune__ledger_entry;

typedef struct clprune__ledger {
    clprune__ledger_entry *entries; /* in order of creation */
    size_t count, capacity;
    uint64_t created; /* entries there ever were */
    clprune_memory_usage usage[CLPRUNE_MEMORY_CATEGORIES], total;
    uint64_t limit; /* bytes; the budget */
} clprune__ledger;

/* A part of a shared buffer, booked under its own name. */
typedef struct clprune__ledger_part {
    const char *name; /* copied */
    size_t bytes;
} clprune__ledger_part;

/* As clprune_buffer_create and clprune_buffer_release, within a call; the first one takes the
 * buffer's place in a plan, if there is one. */
clprune_status clprune__buffer_create(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer);
clprune_status clprune__buffer_create_own(clprune_context *context,
    clprune_memory_category category, const char *name, size_t bytes, cl_mem *buffer);
void clprune__buffer_release(clprune_context *context, cl_mem buffer);

/* As clprune__buffer_create: one buffer for `count` >= 1 parts, each booked as an entry of its
 * own. */
clprune_status clprune__buffer_create_shared(clprune_context *context,
    clprune_memory_category category, size_t count, const clprune__ledger_part *parts,
    cl_mem *buffer);

/* The next entry of a buffer after `last`; the first one if `last` is NULL. NULL: there is none. */
clprune__ledger_entry *clprune__ledger_next(
    clprune__ledger *ledger, cl_mem buffer, const clprune__ledger_entry *last);

/* Bytes of all entries of a buffer. */
uint64_t clprune__ledger_bytes(clprune__ledger *ledger, cl_mem buffer);

/* A command of a dry context touches a buffer: begins a life of its contents, or extends the
 * current one. Errors: INVALID_ARGUMENT (a buffer that is not booked), OUT_OF_HOST_MEMORY. */
clprune_status clprune__ledger_touch(clprune_context *context, cl_mem buffer, uint64_t command);

/* Ends the current life of a buffer's contents. Errors: INVALID_ARGUMENT. */
clprune_status clprune__ledger_forget(clprune_context *context, cl_mem buffer);

/* Releases every buffer still booked and frees the ledger's own memory. */
void clprune__ledger_close(clprune_context *context);

#endif
