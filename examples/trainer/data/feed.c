#include "trainer/data/feed.h"

#include <CL/cl.h>
#include <stdlib.h>

bool feed_check(fault *f, const fault *of)
{
    return of->code == CODE_OK || fault_set(f, of->code, "--data: %s", of->text);
}

static bool open_images(batch_feed *feed, fault *f)
{
    const clprune_memory_category input = CLPRUNE_MEMORY_INPUT;
    clprune_context *context = feed->context;
    clprune_mat *levels = &feed->images.levels;
    return fault_check(f, context,
               clprune_buffer_create(context, input, "images", feed->batch * feed->sample.bytes,
                   &feed->images.buffer),
               "making room for images") &&
           fault_check(f, context,
               clprune_mat_create(
                   context, input, "levels", DATASET_CHANNELS, DATASET_LEVELS, levels),
               "making room for the levels of images") &&
           fault_check(f, context, clprune_mat_write(context, *levels, dataset_levels(feed->data)),
               "sending the levels of images to the device");
}

bool feed_open(
    clprune_context *context, const dataset *data, size_t batch, batch_feed *feed, fault *f)
{
    const clprune_memory_category input = CLPRUNE_MEMORY_INPUT;
    const dataset_shape sample = dataset_sample(data);
    *feed = (batch_feed){.context = context, .data = data, .batch = batch, .sample = sample};
    const bool inputs = sample.tokens ? fault_check(f, context,
                                            clprune_buffer_create(context, input, "tokens",
                                                batch * sample.bytes, &feed->tokens),
                                            "making room for tokens")
                                      : open_images(feed, f);
    if (inputs && fault_check(f, context,
                      clprune_buffer_create(context, input, "labels",
                          batch * sample.labels * sizeof(int32_t), &feed->labels),
                      "making room for labels"))
        return true;
    feed_close(feed);
    return false;
}

/* Allocates a slot's memory at its first use: a run that is only planned needs none. */
static bool fill_slot(const batch_feed *feed, struct feed_slot *slot, fault *f)
{
    if (slot->inputs == NULL)
        slot->inputs = malloc(feed->batch * feed->sample.bytes);
    if (slot->labels == NULL)
        slot->labels = malloc(feed->batch * feed->sample.labels * sizeof(int32_t));
    return (slot->inputs != NULL && slot->labels != NULL) ||
           fault_set(f, CODE_MEMORY, "no memory for a batch of %zu samples", feed->batch);
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
    return fault_check_cl(f, waited, "waiting for a transfer of samples") &&
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
            still_read[i][0] = slot->inputs;
            still_read[i][1] = slot->labels;
            continue;
        }
        free(slot->inputs);
        free(slot->labels);
    }
    clprune_buffer_release(feed->context, feed->images.buffer);
    clprune_buffer_release(feed->context, feed->images.levels.buffer);
    clprune_buffer_release(feed->context, feed->tokens);
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
        feed->data, split, indices, count, augment, slot->inputs, slot->labels, &wrong);
    return feed_check(f, &wrong);
}

bool feed_send(batch_feed *feed, fault *f)
{
    struct feed_slot *slot = &feed->slot[feed->next];
    cl_command_queue queue = clprune_context_queue(feed->context);
    feed->next ^= 1;
    const cl_int inputs =
        clEnqueueWriteBuffer(queue, feed->sample.tokens ? feed->tokens : feed->images.buffer,
            CL_FALSE, 0, slot->count * feed->sample.bytes, slot->inputs, 0, NULL, &slot->done);
    if (!fault_check_cl(f, inputs, "sending samples to the device"))
        return false;
    cl_event both; /* in-order: when the labels are there, so are the inputs */
    const cl_int labels = clEnqueueWriteBuffer(queue, feed->labels, CL_FALSE, 0,
        slot->count * feed->sample.labels * sizeof(int32_t), slot->labels, 0, NULL, &both);
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
