/* The interface to the device: context->backend executes the commands of a context. The OpenCL
 * backend enqueues them on the context's queue, the dry backend only notes which buffers they
 * touch, and the verbose backend (backend_verbose.c) passes them to the OpenCL backend and times
 * them. Callers have checked the operands.
 *
 * Copies between matrices are kernels, so a backend has no copy. */
#ifndef CLPRUNE_RUNTIME_BACKEND_H
#define CLPRUNE_RUNTIME_BACKEND_H

#include <CL/cl.h>
#include <stdbool.h>

#include "clprune/plan.h"

struct clprune__kernel;
struct clprune__kernel_def;
struct clprune__launch;

/* A rectangle of a buffer: `rows` rows of `row_bytes`, which begin `pitch` bytes apart, the first
 * at byte `offset`. On the host the rows are contiguous. Never empty. */
typedef struct clprune__rect {
    cl_mem buffer;
    size_t offset, rows, row_bytes, pitch;
} clprune__rect;

/* A command that another library enqueues, by enqueue(context, job, event). It touches `count`
 * `buffers`. */
typedef struct clprune__foreign {
    clprune_status (*enqueue)(clprune_context *context, const void *job, cl_event *event);
    const void *job;
    size_t count;
    const cl_mem *buffers;
    clprune_plan_work work;
} clprune__foreign;

typedef struct clprune__backend {
    bool runs; /* false: commands are only noted, and reads give zeros */

    /* Sets *kernel to the kernel of a launch, or NULL if the backend needs none. `defines`: as in
     * program_cache.h. */
    clprune_status (*find)(clprune_context *context, const struct clprune__kernel_def *def,
        const char *defines, const struct clprune__kernel **kernel);

    /* The commands. If `event` is not NULL, it is set to an event, or to NULL in a dry context.
     * write and read block until the transfer is done. */
    clprune_status (*kernel)(const struct clprune__launch *launch, cl_uint dimensions,
        const size_t *global, const size_t *local, cl_event *event);
    clprune_status (*foreign)(
        clprune_context *context, const clprune__foreign *command, cl_event *event);
    clprune_status (*fill)(clprune_context *context, const void *pattern, size_t pattern_bytes,
        cl_mem buffer, size_t offset, size_t bytes, cl_event *event);
    clprune_status (*write)(clprune_context *context, const clprune__rect *rect, const void *host);
    clprune_status (*read)(clprune_context *context, const clprune__rect *rect, void *host);

    /* An event that completes with all commands so far. */
    clprune_status (*mark)(clprune_context *context, cl_event *event);
    /* Later commands wait for `count` >= 1 events. */
    clprune_status (*wait)(clprune_context *context, size_t count, const cl_event *events);
    clprune_status (*finish)(clprune_context *context);

    /* Sets *bytes to the size of a buffer. Fails for images and for objects of another context;
     * `name` is for the message. */
    clprune_status (*size)(
        clprune_context *context, const char *name, cl_mem buffer, size_t *bytes);
    /* Sets *whole to the parent of a sub-buffer and *origin to the byte where it begins there; for
     * other buffers, to the buffer itself and 0. Places of the arena are buffers of their
     * own: those that share memory never live at once. */
    clprune_status (*locate)(
        clprune_context *context, cl_mem buffer, cl_mem *whole, size_t *origin);
    /* The contents of a buffer do not matter any more. */
    clprune_status (*forget)(clprune_context *context, cl_mem buffer);
    /* A buffer is about to leave the ledger. */
    void (*released)(clprune_context *context, cl_mem buffer);
} clprune__backend;

/* Whether a buffer was created in a dry context; drivers crash on such handles. Reads the first
 * word, which in OpenCL objects points to the driver's function table (cl_khr_icd). */
bool clprune__is_dry_buffer(cl_mem buffer);

extern const clprune__backend clprune__opencl_backend;
extern const clprune__backend clprune__dry_backend;

#endif
