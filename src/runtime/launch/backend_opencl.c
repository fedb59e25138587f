/* Commands on the context's OpenCL queue. */
#include "runtime/launch/backend.h"
#include "runtime/memory/arena.h"

#include <limits.h>
#include <stdio.h>

#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/compiler_memory.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/program_cache.h"
#include "runtime/memory/transfer.h"

/* One attempt at a launch: with the kernel and work-group asked for, or with smaller ones. */
typedef struct attempt {
    const clprune__kernel *kernel;
    cl_uint dimensions;
    size_t global[3], local[3];
} attempt;

static clprune_status set_arguments(const clprune__launch *launch, const clprune__kernel *kernel)
{
    clprune_context *context = launch->context;
    REQUIRE(launch->arguments_count == kernel->arguments, CLPRUNE_INTERNAL_ERROR,
        "kernel %s takes %u arguments, %zu are set", kernel->def->entry,
        (unsigned)kernel->arguments, launch->arguments_count);
    for (cl_uint i = 0; i < kernel->arguments; i++) {
        const clprune__argument *argument = &launch->arguments[i];
        TRY_CL(clSetKernelArg(kernel->kernel, i, argument->size, &argument->value));
    }
    return CLPRUNE_SUCCESS;
}

/* Enqueues an attempt; *code is the driver's answer. */
static clprune_status submit(
    const clprune__launch *launch, const attempt *a, cl_event *event, cl_int *code)
{
    clprune_context *context = launch->context;
    const clprune__kernel *kernel = a->kernel;
    const size_t group = a->local[0] * a->local[1] * a->local[2];
    for (cl_uint i = 0; i < a->dimensions; i++)
        REQUIRE(kernel->reqd_work_group[0] == 0 || kernel->reqd_work_group[i] == a->local[i],
            CLPRUNE_INTERNAL_ERROR, "kernel %s requires local size %zu, not %zu",
            kernel->def->entry, kernel->reqd_work_group[i], a->local[i]);
    /* Kernels compiled for a required size are exempt: Mesa 22.3 reports 32 for all of them. */
    REQUIRE(group <= kernel->max_work_group || kernel->reqd_work_group[0] != 0, CLPRUNE_UNSUPPORTED,
        "kernel %s needs work-groups of %zu work-items; the device allows at most %zu",
        kernel->def->entry, group, kernel->max_work_group);
    TRY(set_arguments(launch, kernel));
    *code = clEnqueueNDRangeKernel(
        context->queue, kernel->kernel, a->dimensions, NULL, a->global, a->local, 0, NULL, event);
    return CLPRUNE_SUCCESS;
}

static bool refuses_group(cl_int code)
{
    return code == CL_INVALID_WORK_GROUP_SIZE || code == CL_INVALID_WORK_ITEM_SIZE;
}

/* The work-group to try after a refusal: half of the attempt's, rounded down to a multiple of
 * least_group; 0: give up. If the driver refuses the size, at least 2, since kernels for groups of
 * 1 are the other family. If it is out of resources, at least 32: the cause may be memory, which
 * smaller groups do not free. */
static size_t smaller_group(const clprune__launch *launch, const attempt *a, cl_int code)
{
    const size_t least = launch->least_group;
    if (least == 0 || a->local[1] * a->local[2] != 1)
        return 0;
    if (!refuses_group(code) && code != CL_OUT_OF_RESOURCES)
        return 0;
    const size_t half = a->local[0] / 2 - a->local[0] / 2 % least;
    return half >= (refuses_group(code) ? 2 : 32) ? half : 0;
}

/* Keeps the number of groups, but gives them `local` work-items and a kernel compiled for that. */
static void shrink(attempt *a, const clprune__kernel *kernel, size_t local)
{
    a->kernel = kernel;
    a->global[0] = a->global[0] / a->local[0] * local;
    a->local[0] = local;
}

static clprune_status enqueue_kernel(const clprune__launch *launch, cl_uint dimensions,
    const size_t *global, const size_t *local, cl_event *event)
{
    clprune_context *context = launch->context;
    attempt a = {launch->kernel, dimensions, {1, 1, 1}, {1, 1, 1}};
    for (cl_uint i = 0; i < dimensions; i++) {
        a.global[i] = global[i];
        a.local[i] = local[i];
    }
    const size_t least = launch->least_group;
    for (const clprune__kernel *next; least > 0 && (next = a.kernel->smaller) != NULL;) {
        if (next->reqd_work_group[0] % least != 0)
            break; /* shrunk by a launch with a smaller least_group */
        shrink(&a, next, next->reqd_work_group[0]);
    }
    cl_int code;
    TRY(submit(launch, &a, event, &code));
    const clprune__kernel
        *tried[CHAR_BIT * sizeof(size_t)]; /* each has half of the group at most */
    size_t refused = 0;
    for (size_t fewer; code != CL_SUCCESS && (fewer = smaller_group(launch, &a, code)) > 0;) {
        const clprune__kernel *kernel;
        clprune__log(context, CLPRUNE_LOG_WARNING,
            "the driver refused kernel %s in work-groups of %zu with %s (%d); trying %zu",
            a.kernel->def->entry, a.local[0], clprune__cl_name(code), (int)code, fewer);
        TRY(clprune__kernel_shrink(context, a.kernel, fewer, &kernel));
        tried[refused++] = a.kernel;
        shrink(&a, kernel, fewer);
        TRY(submit(launch, &a, event, &code));
    }
    /* Where none ran, the cause may pass, and the full group has the bits of a run without it. */
    for (size_t i = 0; code == CL_SUCCESS && i < refused; i++)
        clprune__kernel_replace(context, tried[i], i + 1 < refused ? tried[i + 1] : a.kernel);
    const char *entry = a.kernel->def->entry;
    REQUIRE(!refuses_group(code), CLPRUNE_UNSUPPORTED,
        "the driver refused kernel %s in work-groups of %zu x %zu x %zu with %s (%d); it reports "
        "at most %zu work-items%s",
        entry, a.local[0], a.local[1], a.local[2], clprune__cl_name(code), (int)code,
        a.kernel->max_work_group,
        a.local[0] > 1
            ? "; options.kernels VECTOR, or CLPRUNE_DEBUG=kernels=vector, has groups of one"
            : "");
    if (code != CL_SUCCESS) {
        char what[128];
        (void)snprintf(what, sizeof what, "kernel %.100s", entry);
        TRY_CODE(what, code);
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status enqueue_foreign(
    clprune_context *context, const clprune__foreign *command, cl_event *event)
{
    return command->enqueue(context, command->job, event);
}

static clprune_status enqueue_fill(clprune_context *context, const void *pattern,
    size_t pattern_bytes, cl_mem buffer, size_t offset, size_t bytes, cl_event *event)
{
    const clprune__window window = clprune__window_of(buffer);
    TRY_CL(clEnqueueFillBuffer(context->queue, window.whole, pattern, pattern_bytes,
        window.origin + offset, bytes, 0, NULL, event));
    return CLPRUNE_SUCCESS;
}

/* Rows without gaps between them are one run of bytes. */
static bool is_run(const clprune__rect *rect)
{
    return rect->rows == 1 || rect->pitch == rect->row_bytes;
}

static const size_t host_origin[3] = {0, 0, 0};

static clprune_status write_rect(
    clprune_context *context, const clprune__rect *rect, const void *host)
{
    const clprune__window window = clprune__window_of(rect->buffer);
    const size_t size[3] = {rect->row_bytes, rect->rows, 1}, at = window.origin + rect->offset;
    if (is_run(rect)) {
        TRY_CL(clEnqueueWriteBuffer(context->queue, window.whole, CL_TRUE, at,
            rect->rows * rect->row_bytes, host, 0, NULL, NULL));
    } else {
        const size_t origin[3] = {at % rect->pitch, at / rect->pitch, 0};
        TRY_CL(clEnqueueWriteBufferRect(context->queue, window.whole, CL_TRUE, origin, host_origin,
            size, rect->pitch, 0, rect->row_bytes, 0, host, 0, NULL, NULL));
    }
    return CLPRUNE_SUCCESS;
}

/* Once all commands have run: the driver's compiler has, too. */
static void return_memory(clprune_context *context)
{
    if (context->cache->is_fresh)
        clprune__compiler_memory_return();
    context->cache->is_fresh = false;
}

static clprune_status read_rect(clprune_context *context, const clprune__rect *rect, void *host)
{
    const clprune__window window = clprune__window_of(rect->buffer);
    const size_t size[3] = {rect->row_bytes, rect->rows, 1}, at = window.origin + rect->offset;
    if (is_run(rect)) {
        TRY_CL(clEnqueueReadBuffer(context->queue, window.whole, CL_TRUE, at,
            rect->rows * rect->row_bytes, host, 0, NULL, NULL));
    } else {
        const size_t origin[3] = {at % rect->pitch, at / rect->pitch, 0};
        TRY_CL(clEnqueueReadBufferRect(context->queue, window.whole, CL_TRUE, origin, host_origin,
            size, rect->pitch, 0, rect->row_bytes, 0, host, 0, NULL, NULL));
    }
    return_memory(context);
    return CLPRUNE_SUCCESS;
}

static clprune_status mark(clprune_context *context, cl_event *event)
{
    TRY_CL(clEnqueueMarkerWithWaitList(context->queue, 0, NULL, event));
    return CLPRUNE_SUCCESS;
}

static clprune_status wait_for(clprune_context *context, size_t count, const cl_event *events)
{
    for (size_t i = 0; i < count; i++) {
        cl_context owner;
        REQUIRE(events[i] != NULL, CLPRUNE_INVALID_ARGUMENT, "events[%zu] is NULL", i);
        TRY_CL(clGetEventInfo(events[i], CL_EVENT_CONTEXT, sizeof(cl_context), &owner, NULL));
        REQUIRE(owner == context->cl, CLPRUNE_INVALID_ARGUMENT,
            "events[%zu] belongs to another OpenCL context", i);
    }
    for (size_t i = 0; i < count; i++) { /* else a command that was never sent may be waited for */
        cl_command_queue queue;
        TRY_CL(clGetEventInfo(events[i], CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL));
        if (queue != NULL && queue != context->queue) /* user events have no queue */
            TRY_CL(clFlush(queue));
    }
    TRY_CL(clEnqueueBarrierWithWaitList(context->queue, (cl_uint)count, events, NULL));
    return CLPRUNE_SUCCESS;
}

static clprune_status finish(clprune_context *context)
{
    TRY_CL(clFinish(context->queue));
    return_memory(context);
    return CLPRUNE_SUCCESS;
}

static clprune_status buffer_size(
    clprune_context *context, const char *name, cl_mem buffer, size_t *bytes)
{
    cl_context owner;
    cl_mem_object_type type;
    REQUIRE(!clprune__is_dry_buffer(buffer), CLPRUNE_INVALID_ARGUMENT,
        "%s was created in a dry context, which has no device memory", name);
    const clprune__window window = clprune__window_of(buffer);
    TRY_CL(clGetMemObjectInfo(window.whole, CL_MEM_CONTEXT, sizeof(cl_context), &owner, NULL));
    REQUIRE(owner == context->cl, CLPRUNE_INVALID_ARGUMENT, "%s belongs to another OpenCL context",
        name);
    if (clprune__is_place(buffer, bytes))
        return CLPRUNE_SUCCESS;
    TRY_CL(clGetMemObjectInfo(buffer, CL_MEM_TYPE, sizeof type, &type, NULL));
    REQUIRE(type == CL_MEM_OBJECT_BUFFER, CLPRUNE_INVALID_ARGUMENT,
        "%s is an OpenCL memory object of type 0x%x, expected a buffer; copy images to a buffer "
        "first",
        name, (unsigned)type);
    TRY_CL(clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof *bytes, bytes, NULL));
    return CLPRUNE_SUCCESS;
}

static clprune_status locate(clprune_context *context, cl_mem buffer, cl_mem *whole, size_t *origin)
{
    cl_mem parent = NULL;
    size_t bytes;
    *whole = buffer;
    *origin = 0;
    REQUIRE(!clprune__is_dry_buffer(buffer), CLPRUNE_INVALID_ARGUMENT,
        "a buffer was created in a dry context, which has no device memory");
    if (clprune__is_place(buffer, &bytes))
        return CLPRUNE_SUCCESS;
    TRY_CL(clGetMemObjectInfo(
        buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(cl_mem), (void *)&parent, NULL));
    if (parent == NULL)
        return CLPRUNE_SUCCESS;
    size_t offset;
    TRY_CL(clGetMemObjectInfo(buffer, CL_MEM_OFFSET, sizeof offset, &offset, NULL));
    *whole = parent;
    *origin = offset;
    return CLPRUNE_SUCCESS;
}

static clprune_status forget(clprune_context *context, cl_mem buffer)
{
    size_t bytes;
    TRY(buffer_size(context, "buffer", buffer, &bytes));
    if (context->poison)
        TRY(clprune__transfer_poison(context, buffer, 0, bytes));
    return CLPRUNE_SUCCESS;
}

static void ignore(clprune_context *context, cl_mem buffer)
{
    (void)context;
    (void)buffer;
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
    .forget = forget,
    .released = ignore};
