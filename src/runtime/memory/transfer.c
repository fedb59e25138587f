#include "runtime/memory/transfer.h"

#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"

clprune_status clprune__transfer_fill(clprune_context *context, const void *pattern,
    size_t pattern_bytes, cl_mem buffer, size_t offset, size_t bytes, cl_event *event)
{
    if (bytes == 0)
        TRY(clprune__empty_event(context, event));
    else
        TRY(context->backend->fill(context, pattern, pattern_bytes, buffer, offset, bytes, event));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__transfer_poison(
    clprune_context *context, cl_mem buffer, size_t offset, size_t bytes)
{
    const uint32_t nan = UINT32_MAX;
    return clprune__transfer_fill(
        context, &nan, sizeof nan, buffer, offset, bytes - bytes % sizeof nan, NULL);
}

clprune_status clprune__transfer_write(
    clprune_context *context, const void *host, cl_mem buffer, size_t offset, size_t bytes)
{
    const clprune__rect rect = {buffer, offset, 1, bytes, bytes};
    return bytes > 0 ? context->backend->write(context, &rect, host) : CLPRUNE_SUCCESS;
}

clprune_status clprune__transfer_read(
    clprune_context *context, cl_mem buffer, size_t offset, size_t bytes, void *host)
{
    const clprune__rect rect = {buffer, offset, 1, bytes, bytes};
    return bytes > 0 ? context->backend->read(context, &rect, host) : CLPRUNE_SUCCESS;
}
