#include "runtime/context/queue.h"

#include <stdlib.h>

#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"

clprune_status clprune__queue_facts(
    clprune_context *context, cl_command_queue queue, cl_device_id *device, cl_context *cl)
{
    cl_command_queue_properties properties;
    TRY_CL(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    REQUIRE((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0, CLPRUNE_INVALID_ARGUMENT,
        "the queue is out-of-order; create it without CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE");
    TRY_CL(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), device, NULL));
    TRY_CL(clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), cl, NULL));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_context_wait(clprune_context *context, size_t count, const cl_event *events)
{
    ENTER_CONTEXT(context);
    REQUIRE(count > 0 && events != NULL, CLPRUNE_INVALID_ARGUMENT,
        "count is %zu and events is %s, expected at least one event", count,
        events == NULL ? "NULL" : "not NULL");
    REQUIRE(count <= UINT32_MAX, CLPRUNE_SIZE_OVERFLOW,
        "count is %zu events, expected fewer than 2^32", count);
    return context->backend->wait(context, count, events);
}

/* Makes `to` wait for all commands of `from`. Scratch and arena are one for both queues, so a
 * command on `to` may reuse memory that one on `from` still works with. */
static clprune_status wait_for_queue(
    clprune_context *context, cl_command_queue from, cl_command_queue to)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_event all = NULL;
    TRY_CL_DONE(clEnqueueMarkerWithWaitList(from, 0, NULL, &all));
    TRY_CL_DONE(clFlush(from)); /* or `to` might wait for a command that was never sent */
    TRY_CL_DONE(clEnqueueBarrierWithWaitList(to, 1, &all, NULL));
done:
    if (all != NULL)
        (void)clReleaseEvent(all);
    return status;
}

/* Makes `queue`, which is another one, the context's. Releases none: a user event may be pending.
 */
static clprune_status change(clprune_context *context, cl_command_queue queue)
{
    const size_t count = context->former_count;
    cl_command_queue *former =
        realloc(context->former, (count + 1) * sizeof(cl_command_queue)); /* freed by finish */
    REQUIRE(former != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a list of %zu queues",
        count + 1);
    context->former = former;
    size_t i = 0;
    while (i < count && former[i] != queue)
        i++;
    TRY(wait_for_queue(context, context->queue, queue));
    if (i == count) {
        TRY_CL(clRetainCommandQueue(queue));
        context->former_count++;
    }
    former[i] = context->queue;
    context->queue = queue;
    return CLPRUNE_SUCCESS;
}

void clprune__former_queues_release(clprune_context *context)
{
    for (size_t i = 0; i < context->former_count; i++)
        (void)clReleaseCommandQueue(context->former[i]);
    free(context->former);
    context->former = NULL;
    context->former_count = 0;
}

clprune_status clprune_context_set_queue(clprune_context *context, cl_command_queue queue)
{
    ENTER_CONTEXT(context);
    cl_device_id device;
    cl_context cl;
    REQUIRE(
        context->queue != NULL, CLPRUNE_INVALID_ARGUMENT, "the context is dry: it has no queue");
    REQUIRE(queue != NULL, CLPRUNE_INVALID_ARGUMENT, "queue is NULL");
    if (queue == context->queue)
        return CLPRUNE_SUCCESS;
    TRY(clprune__queue_facts(context, queue, &device, &cl));
    REQUIRE(
        cl == context->cl, CLPRUNE_INVALID_ARGUMENT, "the queue belongs to another OpenCL context");
    REQUIRE(
        device == context->device, CLPRUNE_INVALID_ARGUMENT, "the queue belongs to another device");
    return change(context, queue);
}

clprune_status clprune__own_queue_begin(clprune_context *context, clprune__own_queue *own)
{
    cl_int code;
    *own = (clprune__own_queue){context->queue, context->backend};
    const cl_command_queue queue = clCreateCommandQueue(context->cl, context->device, 0, &code);
    TRY_CODE("clCreateCommandQueue", code);
    context->queue = queue;
    context->backend = &clprune__opencl_backend;
    return CLPRUNE_SUCCESS;
}

void clprune__own_queue_end(clprune_context *context, const clprune__own_queue *own)
{
    (void)clReleaseCommandQueue(context->queue);
    context->queue = own->callers;
    context->backend = own->backend;
}
