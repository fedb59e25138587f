/* Device memory: one allocator for every buffer, with a ledger by category and name.
 *
 * The ledger counts every buffer of the library, so it gives a program's memory figures. It also
 * enforces the context's budget (options.mem_limit), because drivers allocate lazily and rarely
 * refuse a buffer at its creation. "Booked" means entered in the ledger. */
#ifndef CLPRUNE_MEMORY_H
#define CLPRUNE_MEMORY_H

#include "clprune/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text): the enum and its names are made from this list. */
#define CLPRUNE_MEMORY_CATEGORY_LIST(X)                                                            \
    X(CLPRUNE_MEMORY_INPUT, 0, "input")             /* images and labels */                        \
    X(CLPRUNE_MEMORY_PARAMETERS, 1, "parameters")   /* weights and biases */                       \
    X(CLPRUNE_MEMORY_GRADIENTS, 2, "gradients")     /* of the parameters */                        \
    X(CLPRUNE_MEMORY_OPTIMIZER, 3, "optimizer")     /* moments and trust ratios */                 \
    X(CLPRUNE_MEMORY_ACTIVATIONS, 4, "activations") /* kept from forward to backward */            \
    X(CLPRUNE_MEMORY_WORKSPACE, 5, "workspace")     /* scratch, and tensors of one pass */         \
    X(CLPRUNE_MEMORY_ARENA, 6, "arena") /* shared by planned activations and workspace */

/* The purpose of a buffer. Numbers are part of the ABI. */
typedef enum clprune_memory_category {
#define CLPRUNE_MEMORY_ENUM(name, number, text) name = number,
    CLPRUNE_MEMORY_CATEGORY_LIST(CLPRUNE_MEMORY_ENUM)
#undef CLPRUNE_MEMORY_ENUM
        CLPRUNE_MEMORY_CATEGORIES = 7, /* their number; it grows with the list */
    CLPRUNE_MEMORY_TOTAL = 255         /* all categories, for clprune_memory_query */
} clprune_memory_category;

/* "input", "parameters", ..., "total"; "unknown" outside the list. */
CLPRUNE_API const char *clprune_memory_category_name(clprune_memory_category category);

/* Creates a read-write buffer of `bytes` bytes and books it under `category` with a copy of `name`.
 * A request of 0 bytes allocates 1 byte and books 0. On failure *buffer is NULL.
 * Errors: OUT_OF_DEVICE_MEMORY (over the budget or the device's limit; nothing was allocated),
 * OUT_OF_HOST_MEMORY, INVALID_ARGUMENT, OPENCL_ERROR. */
CLPRUNE_API clprune_status clprune_buffer_create(clprune_context *context,
    clprune_memory_category category, const char *name, size_t bytes, cl_mem *buffer);

/* Removes the buffer and all its names from the ledger and releases it; accepts NULL. OpenCL keeps
 * it alive until the commands that use it are done. A buffer that is not in the ledger is not
 * released. */
CLPRUNE_API void clprune_buffer_release(clprune_context *context, cl_mem buffer);

/* The figures of a category. */
typedef struct clprune_memory_usage {
    uint64_t live;  /* bytes booked now */
    uint64_t peak;  /* highest `live` since creation or the last reset */
    uint64_t count; /* names booked now; matrices that share a buffer have a name each */
} clprune_memory_usage;

/* The figures of one category, or of all with CLPRUNE_MEMORY_TOTAL, whose peak is the peak of the
 * sum. Activations and workspace in an arena (clprune/plan.h) count in their category; the total
 * counts the arena instead. */
CLPRUNE_API clprune_memory_usage clprune_memory_query(
    const clprune_context *context, clprune_memory_category category);

/* Sets each peak to the bytes that are live now. */
CLPRUNE_API void clprune_memory_reset_peak(clprune_context *context);

/* A name in the ledger and the bytes booked under it. */
typedef struct clprune_memory_entry {
    clprune_memory_category category;
    const char *name; /* owned by the ledger: valid during the visit */
    uint64_t bytes;
} clprune_memory_entry;

/* Calls `visit` for each name booked now, in order of creation. `visit` must not create or release
 * buffers. A forked child visits nothing. */
CLPRUNE_API void clprune_memory_visit(const clprune_context *context,
    void (*visit)(void *user, const clprune_memory_entry *entry), void *user);

#ifdef __cplusplus
}
#endif
#endif
