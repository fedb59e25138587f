/* Command queues that a context may use. */
#ifndef CLPRUNE_RUNTIME_QUEUE_H
#define CLPRUNE_RUNTIME_QUEUE_H

#include "clprune/context.h"

struct clprune__backend;

/* The device and the OpenCL context of a queue. Errors: INVALID_ARGUMENT (out-of-order),
 * OPENCL_ERROR. */
clprune_status clprune__queue_facts(
    clprune_context *context, cl_command_queue queue, cl_device_id *device, cl_context *cl);

/* Releases the queues that the context had before its own, whose commands have ended. */
void clprune__former_queues_release(clprune_context *context);

/* Commands go to a queue of the library's own, and print nothing in verbose mode, until
 * clprune__own_queue_end: a check that waits for its results then does not wait for what the caller
 * has enqueued before. Errors: OPENCL_ERROR, OUT_OF_HOST_MEMORY. */
typedef struct clprune__own_queue {
    cl_command_queue callers;
    const struct clprune__backend *backend;
} clprune__own_queue;

clprune_status clprune__own_queue_begin(clprune_context *context, clprune__own_queue *own);
void clprune__own_queue_end(clprune_context *context, const clprune__own_queue *own);

#endif
