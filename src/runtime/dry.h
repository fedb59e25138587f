/* Dry contexts: no device; a command is noted, with the buffers it would touch, instead of run.
 *
 * What enqueues asks context->dry first. The buffers of a dry context are handles of its ledger. */
#ifndef CLPRUNE_RUNTIME_DRY_H
#define CLPRUNE_RUNTIME_DRY_H

#include <stdbool.h>

#include "clprune/context.h"

typedef struct clprune__dry {
    uint64_t commands;     /* noted so far */
    uint64_t *scratch;     /* (commands) bytes borrowed while each was enqueued */
    size_t scratch_most;   /* bytes borrowed at once */
    size_t capacity;       /* of `scratch` */
    bool begun;            /* clprune_plan_begin was called; what the ledger numbers ... */
    uint64_t planned_from; /* ... from here on is planned */
} clprune__dry;

/* A device where none is described: this machine's processors, with vectors of 16 floats. */
clprune_device_info clprune__dry_device(void);

/* Handles in place of buffers. */
extern const clprune_allocator clprune__dry_allocator;

/* Notes a command that touches `count` buffers; a NULL among them is passed over. Errors:
 * OUT_OF_HOST_MEMORY, INVALID_ARGUMENT (a buffer the context has not made). */
clprune_status clprune__dry_note(clprune_context *context, size_t count, const cl_mem *buffers);

/* Bytes of one of its buffers. Errors: INVALID_ARGUMENT (not its own). */
clprune_status clprune__dry_size(
    clprune_context *context, const char *name, cl_mem buffer, size_t *bytes);

void clprune__dry_close(clprune_context *context);

#endif
