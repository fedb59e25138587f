/* Fills, writes and reads of ranges of bytes of a buffer. The caller has checked the range; 0 bytes
 * transfer nothing. */
#ifndef CLPRUNE_RUNTIME_TRANSFER_H
#define CLPRUNE_RUNTIME_TRANSFER_H

#include "clprune/context.h"

/* Repeats a pattern of pattern_bytes, which divides offset and bytes. */
clprune_status clprune__transfer_fill(clprune_context *context, const void *pattern,
    size_t pattern_bytes, cl_mem buffer, size_t offset, size_t bytes, cl_event *event);

/* Makes whole floats of a range NaN; offset is a multiple of 4. */
clprune_status clprune__transfer_poison(
    clprune_context *context, cl_mem buffer, size_t offset, size_t bytes);

/* Both block until the transfer is done. */
clprune_status clprune__transfer_write(
    clprune_context *context, const void *host, cl_mem buffer, size_t offset, size_t bytes);
clprune_status clprune__transfer_read(
    clprune_context *context, cl_mem buffer, size_t offset, size_t bytes, void *host);

#endif
