#include "trainer/session/gradient_windows.h"

#include <stdlib.h>

#include "trainer/base/try.h"

/* ---- ranges ------------------------------------------------------------------------------------
 */

static clprune_status add_part(void *user, clprune_mat part)
{
    gradient_windows *w = user;
    if (w->parts_count == w->parts_room) {
        const size_t room = 2 * w->parts_room + 16;
        clprune_mat *more = realloc(w->parts, room * sizeof *more);
        if (more == NULL)
            return CLPRUNE_OUT_OF_HOST_MEMORY;
        w->parts = more;
        w->parts_room = room;
    }
    w->parts[w->parts_count++] = part;
    return CLPRUNE_SUCCESS;
}

/* Makes a part larger by one that adjoins it. */
static bool join(clprune_mat *range, clprune_mat part)
{
    if (range->buffer != part.buffer ||
        (part.offset + part.cols != range->offset && range->offset + range->cols != part.offset))
        return false;
    range->offset = part.offset < range->offset ? part.offset : range->offset;
    range->cols = range->ld = range->cols + part.cols;
    return true;
}

/* Ranges of a window lie behind the last one's. */
static void make_ranges(gradient_windows *w)
{
    size_t first = 0, floats = 0;
    for (size_t i = 0; i < w->parts_count; ++i) {
        size_t r = first;
        while (r < w->ranges_count && !join(&w->ranges[r], w->parts[i]))
            ++r;
        if (r == w->ranges_count)
            w->ranges[w->ranges_count++] = w->parts[i];
        floats += w->parts[i].cols;
        if (floats >= GRADIENT_WINDOW || i + 1 == w->parts_count) {
            first = w->ranges_count;
            floats = 0;
        }
        w->ends[i] = first;
    }
}

clprune_status gradient_windows_open(clprune_context *context, const rank_group *ranks,
    const gradient_sum *sum, net_model *model, gradient_windows *w)
{
    *w = (gradient_windows){.context = context, .ranks = ranks, .sum = sum};
    TRY(clprune_net_visit_grads(model->net, add_part, w));
    w->ends = calloc(w->parts_count + 1, sizeof *w->ends);
    w->ranges = calloc(w->parts_count + 1, sizeof *w->ranges);
    w->mapped = calloc(w->parts_count + 1, sizeof *w->mapped);
    if (w->ends == NULL || w->ranges == NULL || w->mapped == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    make_ranges(w);
    return CLPRUNE_SUCCESS;
}

void gradient_windows_close(gradient_windows *w)
{
    if (w->queue != NULL)
        (void)clReleaseCommandQueue(w->queue);
    free(w->parts);
    free(w->ends);
    free(w->ranges);
    free(w->mapped);
    *w = (gradient_windows){0};
}

bool gradient_windows_connect(gradient_windows *w, reduce_kind kind, fault *f)
{
    const cl_command_queue main_queue = clprune_context_queue(w->context);
    cl_context cl;
    cl_device_id device;
    cl_int code = clGetCommandQueueInfo(main_queue, CL_QUEUE_CONTEXT, sizeof cl, &cl, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(main_queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
    if (code == CL_SUCCESS)
        w->queue = clCreateCommandQueue(cl, device, 0, &code);
    w->kind = kind;
    return fault_check_cl(f, code, "opening a queue for gradients");
}

/* ---- a step ------------------------------------------------------------------------------------
 */

/* Maps a range once `ready` is complete, and begins what happens to it. */
static bool send_range(
    gradient_windows *w, size_t index, reduce_kind kind, cl_event ready, fault *f)
{
    const clprune_mat range = w->ranges[index];
    cl_event mapped = NULL;
    cl_int code;
    w->mapped[index] =
        clEnqueueMapBuffer(w->queue, range.buffer, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE,
            range.offset * sizeof(float), range.cols * sizeof(float), 1, &ready, &mapped, &code);
    if (!fault_check_cl(f, code, "mapping gradients"))
        return false;
    const bool good =
        fault_check_cl(f, clFlush(w->queue), "mapping gradients") &&
        w->ranks->call->begin(w->ranks->group, kind, mapped, w->mapped[index], range.cols, f);
    return fault_check_cl(f, clReleaseEvent(mapped), "releasing an event") && good;
}

/* Sends the ranges up to `end` that were not sent. */
static bool send(gradient_windows *w, size_t end, reduce_kind kind, fault *f)
{
    const cl_command_queue main_queue = clprune_context_queue(w->context);
    cl_event ready = NULL;
    bool good = fault_check_cl(f, clEnqueueMarkerWithWaitList(main_queue, 0, NULL, &ready),
                    "marking gradients") &&
                fault_check_cl(f, clFlush(main_queue), "marking gradients");
    for (; good && w->sent < end; w->sent += good)
        good = send_range(w, w->sent, kind, ready, f);
    if (ready != NULL)
        (void)clReleaseEvent(ready);
    return good;
}

/* Called with the next part, which is complete on this rank's last pass. */
static clprune_status take(void *user, clprune_mat part)
{
    gradient_windows *w = user;
    TRY(gradient_sum_add(w->sum, part, w->index, true));
    const size_t end = w->ends[w->taken++];
    return w->queue == NULL || end == w->sent || send(w, end, w->kind, &w->fault)
               ? CLPRUNE_SUCCESS
               : CLPRUNE_INVALID_ARGUMENT;
}

static clprune_status take_all(gradient_windows *w)
{
    for (size_t i = 0; i < w->parts_count; ++i)
        TRY(take(w, w->parts[i]));
    return CLPRUNE_SUCCESS;
}

clprune_status gradient_windows_backward(gradient_windows *w, net_model *model,
    const clprune_net_data *data, size_t index, uint64_t draw)
{
    w->index = index;
    w->taken = w->sent = 0;
    if (w->queue != NULL)
        w->ranks->call->draw(w->ranks->group, draw);
    if (data->batch == 0) {
        TRY(gradient_sum_zero(w->sum));
        return take_all(w);
    }
    clprune_net_on_grads(model->net, take, w);
    const clprune_status status = net_model_backward(model, data);
    clprune_net_on_grads(model->net, NULL, NULL);
    return status;
}

static bool unmap(gradient_windows *w, fault *f)
{
    cl_int code = CL_SUCCESS;
    for (size_t i = 0; code == CL_SUCCESS && i < w->ranges_count; ++i)
        code = clEnqueueUnmapMemObject(w->queue, w->ranges[i].buffer, w->mapped[i], 0, NULL, NULL);
    return fault_check_cl(f, code, "unmapping gradients") &&
           fault_check_cl(f, clFinish(w->queue), "unmapping gradients");
}

bool gradient_windows_finish(gradient_windows *w, fault *f)
{
    return w->ranks->call->finish(w->ranks->group, f) && unmap(w, f);
}

bool gradient_windows_gather(gradient_windows *w, fault *f)
{
    w->sent = 0;
    return send(w, w->ranges_count, REDUCE_GATHER, f) && gradient_windows_finish(w, f);
}
