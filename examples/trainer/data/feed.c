#include "trainer/data/feed.h"

#include <CL/cl.h>
#include <stdlib.h>

bool feed_check(fault *f, const fault *of)
{
    return of->code == CODE_OK || fault_set(f, of->code, "--data: %s", of->text);
}

bool feed_open(
    clprune_context *context, const dataset *data, size_t batch, batch_feed *feed, fault *f)
{
    const size_t side = dataset_image_size(data);
    const size_t pixels = DATASET_CHANNELS * side * side;
    *feed = (batch_feed){.context = context, .data = data, .batch = batch, .pixels = pixels};
    clprune_mat *levels = &feed->images.levels;
    const clprune_memory_category input = CLPRUNE_MEMORY_INPUT;
    if (fault_check(f, context,
            clprune_buffer_create(context, input, "images", batch * pixels, &feed->images.buffer),
            "making room for images") &&
        fault_check(f, context,
            clprune_mat_create(context, input, "levels", DATASET_CHANNELS, DATASET_LEVELS, levels),
            "making room for the levels of images") &&
        fault_check(f, context, clprune_mat_write(context, *levels, dataset_levels(data)),
            "sending the levels of images to the device") &&
        fault_check(f, context,
            clprune_buffer_create(context, input, "labels", batch * sizeof(int32_t), &feed->labels),
            "making room for labels"))
        return true;
    feed_close(feed);
    return false;
}

/* Allocates a slot's memory at its first use: a run that is only planned needs none. */
static bool fill_slot(const batch_feed *feed, struct feed_slot *slot, fault *f)
{
    if (slot->images == NULL)
        slot->images = malloc(feed->batch * feed->pixels);
    if (slot->labels == NULL)
        slot->labels = malloc(feed->batch * sizeof(int32_t));
    return (slot->images != NULL && slot->labels != NULL) ||
           fault_set(f, CODE_MEMORY, "no memory for a batch of %zu images", feed->batch);
}

/* Waits until the slot's last transfer is done, or failed: then its host memory is free. */
static bool free_slot(const batch_feed *feed, struct feed_slot *slot, fault *f)
{
    if (slot->done == NULL)
        return true;
    const cl_int waited = clWaitForEvents(1, &slot->done);
    const cl_int released = clReleaseEvent(slot->done);
    slot->done = NULL;
    /* The wait failed, so the transfer may still run: wait for the whole queue. */
    if (waited != CL_SUCCESS && clFinish(clprune_context_queue(feed->context)) != CL_SUCCESS)
        slot->is_read = true;
    return fault_check_cl(f, waited, "waiting for a transfer of images") &&
           fault_check_cl(f, released, "releasing an event");
}

/* Memory that the device may read until the process ends. */
static void *volatile still_read[2][2];

void feed_close(batch_feed *feed)
{
    fault ignored = {0};
    if (feed->context == NULL)
        return;
    for (int i = 0; i < 2; ++i) {
        struct feed_slot *slot = &feed->slot[i];
        (void)free_slot(feed, slot, &ignored);
        if (slot->is_read) {
            still_read[i][0] = slot->images;
            still_read[i][1] = slot->labels;
            continue;
        }
        free(slot->images);
        free(slot->labels);
    }
    clprune_buffer_release(feed->context, feed->images.buffer);
    clprune_buffer_release(feed->context, feed->images.levels.buffer);
    clprune_buffer_release(feed->context, feed->labels);
    *feed = (batch_feed){0};
}

bool feed_make(batch_feed *feed, dataset_split split, const uint32_t *indices, size_t count,
    const augment_options *augment, fault *f)
{
    struct feed_slot *slot = &feed->slot[feed->next];
    fault wrong = {0};
    slot->count = count;
    if (!free_slot(feed, slot, f) || !fill_slot(feed, slot, f))
        return false;
    (void)dataset_batch(
        feed->data, split, indices, count, augment, slot->images, slot->labels, &wrong);
    return feed_check(f, &wrong);
}

bool feed_send(batch_feed *feed, fault *f)
{
    struct feed_slot *slot = &feed->slot[feed->next];
    cl_command_queue queue = clprune_context_queue(feed->context);
    feed->next ^= 1;
    const cl_int images = clEnqueueWriteBuffer(queue, feed->images.buffer, CL_FALSE, 0,
        slot->count * feed->pixels, slot->images, 0, NULL, &slot->done);
    if (!fault_check_cl(f, images, "sending images to the device"))
        return false;
    cl_event both; /* in-order: when the labels are there, so are the images */
    const cl_int labels = clEnqueueWriteBuffer(queue, feed->labels, CL_FALSE, 0,
        slot->count * sizeof(int32_t), slot->labels, 0, NULL, &both);
    if (!fault_check_cl(f, labels, "sending labels to the device"))
        return false;
    const cl_int released = clReleaseEvent(slot->done);
    slot->done = both;
    return fault_check_cl(f, released, "releasing an event");
}

bool feed_batch(batch_feed *feed, dataset_split split, const uint32_t *indices, size_t count,
    const augment_options *augment, fault *f)
{
    return feed_make(feed, split, indices, count, augment, f) && feed_send(feed, f);
}
