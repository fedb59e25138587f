/* Command queues that a context may use. */
#ifndef CLPRUNE_RUNTIME_QUEUE_H
#define CLPRUNE_RUNTIME_QUEUE_H

#include "clprune/context.h"

/* The device and the OpenCL context of a queue. Errors: INVALID_ARGUMENT (out-of-order),
 * OPENCL_ERROR. */
clprune_status clprune__queue_facts(
    clprune_context *context, cl_command_queue queue, cl_device_id *device, cl_context *cl);

#endif
