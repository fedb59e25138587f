/* The seam to the device: what a context's commands become. There are two backends: OpenCL runs
 * them on the context's queue, dry notes which buffers they touch. Callers check the operands; a
 * backend is found as context->backend.
 *
 * Copies between matrices are kernels, so a backend has no copy. */
#ifndef CLPRUNE_RUNTIME_BACKEND_H
#define CLPRUNE_RUNTIME_BACKEND_H

#include <CL/cl.h>
#include <stdbool.h>

#include "clprune/context.h"

struct clprune__kernel;
struct clprune__kernel_def;
struct clprune__launch;

/* `rows` runs of `row_bytes`, `pitch` bytes apart, from byte `offset` of a buffer on; dense on the
 * host. Never empty. */
typedef struct clprune__rect {
    cl_mem buffer;
    size_t offset, rows, row_bytes, pitch;
} clprune__rect;

/* A command that another library enqueues: `enqueue` is called with `job`. It touches `count`
 * buffers. */
typedef struct clprune__foreign {
    clprune_status (*enqueue)(clprune_context *context, const void *job, cl_event *event);
    const void *job;
    size_t count;
    const cl_mem *buffers;
} clprune__foreign;

typedef struct clprune__backend {
    bool runs; /* commands have results; else nothing can be read back */

    /* The kernel of a launch; NULL where none is needed. `defines`: as in program_cache.h. */
    clprune_status (*find)(clprune_context *context, const struct clprune__kernel_def *def,
        const char *defines, const struct clprune__kernel **kernel);

    /* The commands. Those with `event` store an event there, if it is not NULL: NULL where there is
     * no queue. Writing and reading wait for the transfer. */
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

    /* The bytes of a buffer that must be the context's, and no image; `name` is for the message. */
    clprune_status (*size)(
        clprune_context *context, const char *name, cl_mem buffer, size_t *bytes);
    /* The buffer that a sub-buffer is a part of, and the byte of it where the part begins; other
     * buffers themselves, and 0. Places of the arena count as buffers of their own. */
    clprune_status (*locate)(
        clprune_context *context, cl_mem buffer, cl_mem *whole, size_t *origin);
    /* The contents of a buffer do not matter any more. */
    clprune_status (*forget)(clprune_context *context, cl_mem buffer);
} clprune__backend;

/* Whether a buffer is one of a dry context, which a driver would crash on. It reads the first word:
 * OpenCL's objects begin with a pointer to the functions of their driver (cl_khr_icd). */
bool clprune__is_dry_buffer(cl_mem buffer);

extern const clprune__backend clprune__opencl_backend;
extern const clprune__backend clprune__dry_backend;

#endif
