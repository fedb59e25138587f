/* Choosing a device by a selection string, and what is known of one. */
#ifndef CLPRUNE_RUNTIME_DEVICE_SELECT_H
#define CLPRUNE_RUNTIME_DEVICE_SELECT_H

#include <CL/cl.h>

#include "clprune/context.h"

/* `selection`: "platform:device", part of a device or platform name in any case, or NULL or "" for
 * the first GPU, else the first device. Errors go to the thread's text. */
clprune_status clprune__device_select(
    const char *selection, cl_platform_id *platform, cl_device_id *device);

/* What a device says of itself; 0 and "" where it does not answer. Its two indices are 0. */
clprune_device_info clprune__device_describe(cl_device_id device);

#endif
