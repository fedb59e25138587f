#include "trainer/session/gradient_windows.h"

#include <stdlib.h>
#include <string.h>

#include "trainer/base/try.h"

bool gradient_windows_open(clprune_context *context, const rank_group *ranks,
    const gradient_sum *sum, gradient_windows *w, fault *f)
{
    const cl_command_queue main_queue = clprune_context_queue(context);
    cl_context cl;
    cl_device_id device;
    cl_int code = clGetCommandQueueInfo(main_queue, CL_QUEUE_CONTEXT, sizeof cl, &cl, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(main_queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
    *w = (gradient_windows){.context = context, .ranks = ranks, .sum = sum};
    if (code == CL_SUCCESS)
        w->queue = clCreateCommandQueue(cl, device, 0, &code);
    if (code != CL_SUCCESS)
        *w = (gradient_windows){0};
    return fault_check_cl(f, code, "opening a queue for gradients");
}

void gradient_windows_close(gradient_windows *w)
{
    if (w->queue != NULL)
        (void)clReleaseCommandQueue(w->queue);
    free(w->parts);
    free(w->mapped);
    *w = (gradient_windows){0};
}

/* Room for one more in an array of `count` elements of `size`. */
static bool grow(void **array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return true;
    void *more = realloc(*array, (2 * count + 8) * size);
    if (more == NULL)
        return false;
    *array = more;
    *room = 2 * count + 8;
    return true;
}

/* Maps a range once `ready` is complete, and begins its sum. */
static bool send_range(gradient_windows *w, clprune_mat range, cl_event ready, fault *f)
{
    cl_event mapped = NULL;
    cl_int code;
    void *host = clEnqueueMapBuffer(w->queue, range.buffer, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE,
        range.offset * sizeof(float), range.cols * sizeof(float), 1, &ready, &mapped, &code);
    if (!fault_check_cl(f, code, "mapping gradients"))
        return false;
    w->mapped[w->mapped_count++] = (struct gradient_mapping){range.buffer, host};
    const bool good =
        fault_check_cl(f, clFlush(w->queue), "mapping gradients") &&
        w->ranks->call->begin(w->ranks->group, REDUCE_SUM, mapped, host, range.cols, f);
    return fault_check_cl(f, clReleaseEvent(mapped), "releasing an event") && good;
}

/* Sends the ranges that wait. */
static bool send(gradient_windows *w, fault *f)
{
    const cl_command_queue main_queue = clprune_context_queue(w->context);
    cl_event ready = NULL;
    if (w->ranges_count == 0)
        return true;
    bool good = fault_check_cl(f, clEnqueueMarkerWithWaitList(main_queue, 0, NULL, &ready),
                    "marking gradients") &&
                fault_check_cl(f, clFlush(main_queue), "marking gradients");
    for (size_t i = 0; good && i < w->ranges_count; ++i)
        good = (grow((void **)&w->mapped, w->mapped_count, &w->mapped_room, sizeof *w->mapped) ||
                   fault_set(f, CODE_MEMORY, "out of memory")) &&
               send_range(w, w->ranges[i], ready, f);
    if (ready != NULL)
        (void)clReleaseEvent(ready);
    w->ranges_count = w->floats = 0;
    return good;
}

/* Adds a complete part to the ranges: to one that it adjoins, if there is one. */
static bool pend(gradient_windows *w, clprune_mat part, fault *f)
{
    clprune_mat *range = NULL;
    for (size_t i = 0; range == NULL && i < w->ranges_count; ++i) {
        clprune_mat *r = &w->ranges[i];
        if (r->buffer == part.buffer &&
            (part.offset + part.cols == r->offset || r->offset + r->cols == part.offset))
            range = r;
    }
    if (range != NULL) {
        range->offset = part.offset < range->offset ? part.offset : range->offset;
        range->cols = range->ld = range->cols + part.cols;
    } else {
        w->ranges[w->ranges_count++] = part;
    }
    w->floats += part.cols;
    return (w->floats < GRADIENT_WINDOW && w->ranges_count < GRADIENT_RANGES) || send(w, f);
}

/* Called with a part that is complete on this rank's last pass. */
static clprune_status take(void *user, clprune_mat part)
{
    gradient_windows *w = user;
    TRY(gradient_sum_add(w->sum, part, w->index, true));
    if (!w->by_parts) {
        if (!grow((void **)&w->parts, w->parts_count, &w->room, sizeof *w->parts))
            return CLPRUNE_OUT_OF_HOST_MEMORY;
        w->parts[w->parts_count++] = part;
        return CLPRUNE_SUCCESS;
    }
    return pend(w, part, &w->fault) ? CLPRUNE_SUCCESS : CLPRUNE_INVALID_ARGUMENT;
}

static clprune_status without_samples(gradient_windows *w)
{
    TRY(gradient_sum_zero(w->sum));
    for (size_t i = 0; w->by_parts && i < w->parts_count; ++i)
        TRY(take(w, w->parts[i]));
    return w->by_parts ? CLPRUNE_SUCCESS : gradient_sum_add_all(w->sum, w->index, true);
}

clprune_status gradient_windows_backward(gradient_windows *w, const trainer_model *type,
    void *model, const clprune_net_data *data, size_t index)
{
    w->index = index;
    if (data->batch == 0)
        return without_samples(w);
    if (type->on_grads == NULL) {
        TRY(type->backward(model, data));
        return gradient_sum_add_all(w->sum, index, true);
    }
    if (!w->by_parts)
        w->parts_count = 0;
    type->on_grads(model, take, w);
    const clprune_status status = type->backward(model, data);
    type->on_grads(model, NULL, NULL);
    return status;
}

static bool unmap(gradient_windows *w, fault *f)
{
    cl_int code = CL_SUCCESS;
    for (size_t i = 0; code == CL_SUCCESS && i < w->mapped_count; ++i)
        code = clEnqueueUnmapMemObject(
            w->queue, w->mapped[i].buffer, w->mapped[i].host, 0, NULL, NULL);
    w->mapped_count = 0;
    return fault_check_cl(f, code, "unmapping gradients") &&
           fault_check_cl(f, clFinish(w->queue), "unmapping gradients");
}

bool gradient_windows_finish(gradient_windows *w, fault *f)
{
    const rank_group *r = w->ranks;
    uint32_t unknown = w->parts_count == 0;
    for (size_t b = 0; !w->by_parts && b < w->sum->buffers; ++b)
        if (!pend(w, w->sum->grads[b], f))
            return false;
    if (!send(w, f) || !r->call->finish(r->group, f) || !unmap(w, f))
        return false;
    if (!w->by_parts) {
        if (!r->call->agree(r->group, &unknown, 1, f))
            return false;
        w->by_parts = unknown == 0;
    }
    return true;
}
