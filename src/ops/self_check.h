/* Whether a device computes what it is told to: some drivers give NaN or wrong numbers without an
 * error. */
#ifndef CLPRUNE_OPS_SELF_CHECK_H
#define CLPRUNE_OPS_SELF_CHECK_H

#include "clprune/context.h"

/* Runs self_check.cl and compares its results with the host's, on a queue of its own, so that
 * nothing on the caller's is waited for. A device that passed is not asked again by the process, in
 * the same kernel family. Its program is kept like any other; statistics do not count it. A no-op
 * in dry contexts. Errors: UNSUPPORTED (wrong results; the text names device and driver),
 * BUILD_FAILED, OPENCL_ERROR, OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY. */
clprune_status clprune__self_check(clprune_context *context);

#endif
