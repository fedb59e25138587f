/* Selection of a device by a string, and the facts of a device. */
#ifndef CLPRUNE_RUNTIME_DEVICE_SELECT_H
#define CLPRUNE_RUNTIME_DEVICE_SELECT_H

#include <CL/cl.h>

#include "clprune/context.h"

/* `selection`: "platform:device", part of a device or platform name in any case, or NULL or "" for
 * the first GPU, else the first device. A bare number is refused: it could be an index or part of a
 * name. Errors: NO_DEVICE, OPENCL_ERROR (a query that the choice depends on failed),
 * OUT_OF_HOST_MEMORY. */
clprune_status clprune__device_select(clprune_context *context, const char *selection,
    cl_platform_id *platform, cl_device_id *device);

/* Fills *info from queries of the device; its two indices are 0. A query that fails leaves its
 * field 0 or "", the others are still made, and the last error is returned. Errors:
 * OPENCL_ERROR. */
clprune_status clprune__device_describe(
    clprune_context *context, cl_device_id device, clprune_device_info *info);

#endif
