/* The self-check of a device: some drivers give NaN or wrong numbers without an error. */
#ifndef CLPRUNE_OPS_SELF_CHECK_H
#define CLPRUNE_OPS_SELF_CHECK_H

#include "clprune/context.h"

/* Runs self_check.cl and compares the results with the host's. It has a queue of its own, so that
 * it does not wait for the caller's. A process checks a device once for each kernel family, unless
 * it failed. The program is cached like any other, but statistics do not count it. A no-op in dry
 * contexts. Errors: UNSUPPORTED (wrong results; the text names device and driver), BUILD_FAILED,
 * OPENCL_ERROR, OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY. */
clprune_status clprune__self_check(clprune_context *context);

#endif
