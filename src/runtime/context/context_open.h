/* The runtime's part of opening and closing a context. */
#ifndef CLPRUNE_RUNTIME_CONTEXT_OPEN_H
#define CLPRUNE_RUNTIME_CONTEXT_OPEN_H

#include <stdbool.h>

#include "clprune/context.h"
#include "runtime/launch/program_cache.h"

/* What a context is opened with. */
typedef struct clprune__context_setup {
    cl_command_queue queue;            /* NULL: options->device selects a device */
    bool dry;                          /* no device is opened */
    const clprune_device_info *device; /* what a dry context assumes; NULL: this machine's CPU */
    clprune_kernels kernels;           /* AUTO: by the device, see clprune_kernels */
    bool poison, is_apart;             /* context_private.h */
    clprune__order order;
    uint32_t units; /* compute units that the device is said to have; 0: its own number */
    const clprune_context_options *options;
} clprune__context_setup;

/* Opens the runtime's part of *context: device facts, ledger, scratch and, unless dry, the disk
 * layer of the program cache; context->ops is NULL. On failure *context is NULL, and the error text
 * is the calling thread's. */
clprune_status clprune__context_open(
    const clprune__context_setup *setup, clprune_context **context);

/* Waits for the queue and releases everything; accepts NULL. */
void clprune__context_close(clprune_context *context);

#endif
