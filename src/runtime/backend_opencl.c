/* Commands on the context's OpenCL queue. */
#include "runtime/arena.h"
#include "runtime/backend.h"

#include <stdio.h>

#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/launch.h"
#include "runtime/transfer.h"

static clprune_status set_arguments(const clprune__launch *launch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = launch->context;
    const clprune__kernel *kernel = launch->kernel;
    REQUIRE(launch->arguments_count == kernel->arguments, CLPRUNE_INTERNAL_ERROR,
        "kernel %s takes %u arguments, %zu are set", kernel->def->entry,
        (unsigned)kernel->arguments, launch->arguments_count);
    for (cl_uint i = 0; i < kernel->arguments; i++) {
        const clprune__argument *argument = &launch->arguments[i];
        TRY_CL(clSetKernelArg(kernel->kernel, i, argument->size, &argument->value));
    }
done:
    return status;
}

static clprune_status enqueue_kernel(const clprune__launch *launch, cl_uint dimensions,
    const size_t *global, const size_t *local, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = launch->context;
    const clprune__kernel *kernel = launch->kernel;
    size_t group = 1;
    for (cl_uint i = 0; i < dimensions; i++) {
        REQUIRE(kernel->reqd_work_group[0] == 0 || kernel->reqd_work_group[i] == local[i],
            CLPRUNE_INTERNAL_ERROR, "kernel %s requires local size %zu, not %zu",
            kernel->def->entry, kernel->reqd_work_group[i], local[i]);
        group *= local[i];
    }
    /* A kernel that was compiled for its size may report less: Mesa 22.3 says 32 of any. */
    REQUIRE(group <= kernel->max_work_group || kernel->reqd_work_group[0] != 0, CLPRUNE_UNSUPPORTED,
        "kernel %s needs work-groups of %zu work-items; the device allows at most %zu",
        kernel->def->entry, group, kernel->max_work_group);
    TRY(set_arguments(launch));
    const cl_int code = clEnqueueNDRangeKernel(
        context->queue, kernel->kernel, dimensions, NULL, global, local, 0, NULL, event);
    REQUIRE(code != CL_INVALID_WORK_GROUP_SIZE && code != CL_INVALID_WORK_ITEM_SIZE,
        CLPRUNE_UNSUPPORTED,
        "the driver refused kernel %s in work-groups of %zu x %zu x %zu with %s (%d); it reports "
        "at most %zu work-items",
        kernel->def->entry, local[0], dimensions > 1 ? local[1] : 1, dimensions > 2 ? local[2] : 1,
        clprune__cl_name(code), (int)code, kernel->max_work_group);
    if (code != CL_SUCCESS) {
        char what[128];
        (void)snprintf(what, sizeof what, "kernel %.100s", kernel->def->entry);
        TRY_CODE(what, code);
    }
done:
    return status;
}

static clprune_status enqueue_foreign(
    clprune_context *context, const clprune__foreign *command, cl_event *event)
{
    return command->enqueue(context, command->job, event);
}

static clprune_status enqueue_fill(clprune_context *context, const void *pattern,
    size_t pattern_bytes, cl_mem buffer, size_t offset, size_t bytes, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY_CL(clEnqueueFillBuffer(
        context->queue, buffer, pattern, pattern_bytes, offset, bytes, 0, NULL, event));
done:
    return status;
}

/* Rectangles as OpenCL wants them. The whole offset goes into the first coordinate, which may pass
 * the pitch. */
static const size_t host_origin[3] = {0, 0, 0};

static clprune_status write_rect(
    clprune_context *context, const clprune__rect *rect, const void *host)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t origin[3] = {rect->offset, 0, 0}, size[3] = {rect->row_bytes, rect->rows, 1};
    if (rect->rows == 1)
        TRY_CL(clEnqueueWriteBuffer(context->queue, rect->buffer, CL_TRUE, rect->offset,
            rect->row_bytes, host, 0, NULL, NULL));
    else
        TRY_CL(clEnqueueWriteBufferRect(context->queue, rect->buffer, CL_TRUE, origin, host_origin,
            size, rect->pitch, 0, rect->row_bytes, 0, host, 0, NULL, NULL));
done:
    return status;
}

static clprune_status read_rect(clprune_context *context, const clprune__rect *rect, void *host)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t origin[3] = {rect->offset, 0, 0}, size[3] = {rect->row_bytes, rect->rows, 1};
    if (rect->rows == 1)
        TRY_CL(clEnqueueReadBuffer(context->queue, rect->buffer, CL_TRUE, rect->offset,
            rect->row_bytes, host, 0, NULL, NULL));
    else
        TRY_CL(clEnqueueReadBufferRect(context->queue, rect->buffer, CL_TRUE, origin, host_origin,
            size, rect->pitch, 0, rect->row_bytes, 0, host, 0, NULL, NULL));
done:
    return status;
}

static clprune_status mark(clprune_context *context, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY_CL(clEnqueueMarkerWithWaitList(context->queue, 0, NULL, event));
done:
    return status;
}

static clprune_status wait_for(clprune_context *context, size_t count, const cl_event *events)
{
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; i < count; i++) {
        cl_context owner;
        REQUIRE(events[i] != NULL, CLPRUNE_INVALID_ARGUMENT, "events[%zu] is NULL", i);
        TRY_CL(clGetEventInfo(events[i], CL_EVENT_CONTEXT, sizeof(cl_context), &owner, NULL));
        REQUIRE(owner == context->cl, CLPRUNE_INVALID_ARGUMENT,
            "events[%zu] belongs to another OpenCL context", i);
    }
    TRY_CL(clEnqueueBarrierWithWaitList(context->queue, (cl_uint)count, events, NULL));
done:
    return status;
}

static clprune_status finish(clprune_context *context)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY_CL(clFinish(context->queue));
done:
    return status;
}

static clprune_status buffer_size(
    clprune_context *context, const char *name, cl_mem buffer, size_t *bytes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_context owner;
    cl_mem_object_type type;
    REQUIRE(!clprune__is_dry_buffer(buffer), CLPRUNE_INVALID_ARGUMENT,
        "%s was created in a dry context, which has no device memory", name);
    TRY_CL(clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof(cl_context), &owner, NULL));
    REQUIRE(owner == context->cl, CLPRUNE_INVALID_ARGUMENT, "%s belongs to another OpenCL context",
        name);
    TRY_CL(clGetMemObjectInfo(buffer, CL_MEM_TYPE, sizeof type, &type, NULL));
    REQUIRE(type == CL_MEM_OBJECT_BUFFER, CLPRUNE_INVALID_ARGUMENT,
        "%s is an OpenCL memory object of type 0x%x, expected a buffer; copy images to a buffer "
        "first",
        name, (unsigned)type);
    TRY_CL(clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof *bytes, bytes, NULL));
done:
    return status;
}

static clprune_status locate(clprune_context *context, cl_mem buffer, cl_mem *whole, size_t *origin)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_mem parent = NULL;
    *whole = buffer;
    *origin = 0;
    TRY_CL(clGetMemObjectInfo(
        buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(cl_mem), (void *)&parent, NULL));
    /* Places of the arena are buffers of their own: those that share memory never live at once. */
    if (parent == NULL || parent == context->arena->buffer)
        goto done;
    TRY_CL(clGetMemObjectInfo(buffer, CL_MEM_OFFSET, sizeof *origin, origin, NULL));
    *whole = parent;
done:
    return status;
}

static clprune_status forget(clprune_context *context, cl_mem buffer)
{
    clprune_status status = CLPRUNE_SUCCESS;
    size_t bytes;
    TRY(buffer_size(context, "buffer", buffer, &bytes));
    if (context->poison)
        TRY(clprune__transfer_poison(context, buffer, 0, bytes));
done:
    return status;
}

const clprune__backend clprune__opencl_backend = {.runs = true,
    .find = clprune__kernel_get,
    .kernel = enqueue_kernel,
    .foreign = enqueue_foreign,
    .fill = enqueue_fill,
    .write = write_rect,
    .read = read_rect,
    .mark = mark,
    .wait = wait_for,
    .finish = finish,
    .size = buffer_size,
    .locate = locate,
    .forget = forget};
