#include "runtime/transfer.h"

#include "runtime/check.h"
#include "runtime/context_private.h"

clprune_status clprune__transfer_fill(clprune_context *context, const void *pattern,
    size_t pattern_bytes, cl_mem buffer, size_t offset, size_t bytes, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (bytes > 0 && context->dry != NULL)
        TRY(clprune__dry_note(context, 1, &buffer));
    if (bytes == 0 || context->dry != NULL)
        TRY(clprune__empty_event(context, event));
    else
        TRY_CL(clEnqueueFillBuffer(
            context->queue, buffer, pattern, pattern_bytes, offset, bytes, 0, NULL, event));
done:
    return status;
}

clprune_status clprune__transfer_poison(
    clprune_context *context, cl_mem buffer, size_t offset, size_t bytes)
{
    const uint32_t nan = UINT32_MAX;
    return clprune__transfer_fill(
        context, &nan, sizeof nan, buffer, offset, bytes - bytes % sizeof nan, NULL);
}

clprune_status clprune__transfer_write(
    clprune_context *context, const void *host, cl_mem buffer, size_t bytes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (bytes == 0)
        goto done;
    if (context->dry != NULL)
        TRY(clprune__dry_note(context, 1, &buffer));
    else
        TRY_CL(
            clEnqueueWriteBuffer(context->queue, buffer, CL_TRUE, 0, bytes, host, 0, NULL, NULL));
done:
    return status;
}
