/* The runtime's part of opening and closing a context. */
#ifndef CLPRUNE_RUNTIME_CONTEXT_OPEN_H
#define CLPRUNE_RUNTIME_CONTEXT_OPEN_H

#include <stdbool.h>

#include "clprune/context.h"

/* What a context is opened with. */
typedef struct clprune__context_setup {
    cl_command_queue queue;            /* NULL: options->device selects a device */
    bool dry;                          /* no device is opened ... */
    const clprune_device_info *device; /* ... but this one assumed; NULL: this machine's CPU */
    clprune_kernels kernels;           /* AUTO: by device type */
    bool poison;
    const clprune_context_options *options;
} clprune__context_setup;

/* *context has facts, ledger, scratch and, where commands run, a program cache; context->ops is
 * NULL. On failure it is NULL, and the error is the thread's. */
clprune_status clprune__context_open(
    const clprune__context_setup *setup, clprune_context **context);

/* Waits for the queue and releases everything; accepts NULL. */
void clprune__context_close(clprune_context *context);

#endif
