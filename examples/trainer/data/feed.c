#include "trainer/data/feed.h"

#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

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

/* Bytes of what a sample has behind its tokens: its length, or their starts. */
static size_t behind_bytes(const batch_feed *feed)
{
    const dataset_shape *sample = &feed->sample;
    return (sample->lengths ? 1 : sample->starts ? sample->labels : 0) * sizeof(int32_t);
}

/* Bytes of a sample's inputs on the device. */
static size_t sent_bytes(const batch_feed *feed)
{
    return feed->sample.bytes - behind_bytes(feed);
}

static bool open_tokens(batch_feed *feed, fault *f)
{
    const clprune_memory_category input = CLPRUNE_MEMORY_INPUT;
    clprune_context *context = feed->context;
    const bool starts = feed->sample.starts;
    return fault_check(f, context,
               clprune_buffer_create(
                   context, input, "tokens", feed->batch * sent_bytes(feed), &feed->tokens.buffer),
               "making room for tokens") &&
           (behind_bytes(feed) == 0 ||
               fault_check(f, context,
                   clprune_buffer_create(context, input, starts ? "starts" : "lengths",
                       feed->batch * behind_bytes(feed),
                       starts ? &feed->starts.buffer : &feed->lengths.buffer),
                   starts ? "making room for starts of texts" : "making room for lengths"));
}

bool feed_open(
    clprune_context *context, const dataset *data, size_t batch, batch_feed *feed, fault *f)
{
    const clprune_memory_category input = CLPRUNE_MEMORY_INPUT;
    const dataset_shape sample = dataset_sample(data);
    *feed = (batch_feed){.context = context, .data = data, .batch = batch, .sample = sample};
    const bool inputs = sample.tokens ? open_tokens(feed, f) : open_images(feed, f);
    if (inputs && fault_check(f, context,
                      clprune_buffer_create(context, input, "labels",
                          batch * sample.labels * sizeof(int32_t), &feed->labels.buffer),
                      "making room for labels"))
        return true;
    feed_close(feed);
    return false;
}

bool feed_open_mix(batch_feed *feed, fault *f)
{
    const clprune_memory_category input = CLPRUNE_MEMORY_INPUT;
    return fault_check(f, feed->context,
               clprune_buffer_create(feed->context, input, "other labels",
                   feed->batch * sizeof(int32_t), &feed->others.buffer),
               "making room for labels") &&
           fault_check(f, feed->context,
               clprune_mat_create(feed->context, input, "shares", feed->batch, 1, &feed->shares),
               "making room for shares of labels");
}

static bool mixes(const batch_feed *feed)
{
    return feed->shares.buffer != NULL;
}

/* Allocates a slot's memory at its first use: a run that is only planned needs none. */
static bool fill_slot(const batch_feed *feed, struct feed_slot *slot, fault *f)
{
    if (slot->inputs == NULL)
        slot->inputs = malloc(feed->batch * feed->sample.bytes);
    if (slot->labels == NULL)
        slot->labels = malloc(feed->batch * feed->sample.labels * sizeof(int32_t));
    if (slot->behind == NULL && behind_bytes(feed) > 0)
        slot->behind = malloc(feed->batch * behind_bytes(feed));
    if (slot->others == NULL && mixes(feed))
        slot->others = malloc(feed->batch * sizeof(int32_t));
    if (slot->shares == NULL && mixes(feed))
        slot->shares = malloc(feed->batch * sizeof(float));
    return (slot->inputs != NULL && slot->labels != NULL &&
               (slot->behind != NULL || behind_bytes(feed) == 0) &&
               ((slot->others != NULL && slot->shares != NULL) || !mixes(feed))) ||
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
static void *volatile still_read[2][5];

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
            still_read[i][2] = slot->behind;
            still_read[i][3] = slot->others;
            still_read[i][4] = slot->shares;
            continue;
        }
        free(slot->inputs);
        free(slot->labels);
        free(slot->behind);
        free(slot->others);
        free(slot->shares);
    }
    clprune_buffer_release(feed->context, feed->images.buffer);
    clprune_buffer_release(feed->context, feed->images.levels.buffer);
    clprune_buffer_release(feed->context, feed->tokens.buffer);
    clprune_buffer_release(feed->context, feed->lengths.buffer);
    clprune_buffer_release(feed->context, feed->starts.buffer);
    clprune_buffer_release(feed->context, feed->labels.buffer);
    clprune_buffer_release(feed->context, feed->others.buffer);
    clprune_buffer_release(feed->context, feed->shares.buffer);
    *feed = (batch_feed){0};
}

/* Takes lengths or starts out of the samples, whose tokens then lie one behind the other. */
static void take_behind(const batch_feed *feed, struct feed_slot *slot)
{
    const size_t bytes = sent_bytes(feed), behind = behind_bytes(feed);
    for (size_t i = 0; behind > 0 && i < slot->count; ++i) {
        const uint8_t *from = slot->inputs + i * feed->sample.bytes;
        memcpy(slot->behind + i * behind / sizeof(int32_t), from + bytes, behind);
        memmove(slot->inputs + i * bytes, from, bytes);
    }
}

bool feed_make(batch_feed *feed, dataset_split split, const uint32_t *indices, size_t count,
    const augment_options *augment, fault *f)
{
    struct feed_slot *slot = &feed->slot[feed->next];
    fault wrong = {0};
    slot->count = count;
    if (!free_slot(feed, slot, f) || !fill_slot(feed, slot, f))
        return false;
    (void)dataset_batch_mixed(feed->data, split, indices, count, augment, slot->inputs,
        slot->labels, slot->others, slot->shares, &wrong);
    take_behind(feed, slot);
    return feed_check(f, &wrong);
}

/* Enqueues a transfer. In-order: when the latest one of a slot is done, so are those before it. */
static bool send(const batch_feed *feed, struct feed_slot *slot, cl_mem to, size_t bytes,
    const void *from, const char *what, fault *f)
{
    cl_event done;
    const cl_int sent = clEnqueueWriteBuffer(clprune_context_queue(feed->context), to, CL_FALSE, 0,
        slot->count * bytes, from, 0, NULL, &done);
    if (!fault_check_cl(f, sent, what))
        return false;
    const cl_int released = slot->done != NULL ? clReleaseEvent(slot->done) : CL_SUCCESS;
    slot->done = done;
    return fault_check_cl(f, released, "releasing an event");
}

bool feed_send(batch_feed *feed, fault *f)
{
    struct feed_slot *slot = &feed->slot[feed->next];
    const dataset_shape *sample = &feed->sample;
    feed->next ^= 1;
    return send(feed, slot, sample->tokens ? feed->tokens.buffer : feed->images.buffer,
               sent_bytes(feed), slot->inputs, "sending samples to the device", f) &&
           (behind_bytes(feed) == 0 ||
               send(feed, slot, sample->starts ? feed->starts.buffer : feed->lengths.buffer,
                   behind_bytes(feed), slot->behind, "sending lengths to the device", f)) &&
           (!mixes(feed) || (send(feed, slot, feed->others.buffer, sizeof(int32_t), slot->others,
                                 "sending other labels to the device", f) &&
                                send(feed, slot, feed->shares.buffer, sizeof(float), slot->shares,
                                    "sending shares to the device", f))) &&
           send(feed, slot, feed->labels.buffer, sample->labels * sizeof(int32_t), slot->labels,
               "sending labels to the device", f);
}

const int32_t *feed_labels(const batch_feed *feed)
{
    return feed->slot[feed->next ^ 1].labels;
}

bool feed_batch(batch_feed *feed, dataset_split split, const uint32_t *indices, size_t count,
    const augment_options *augment, fault *f)
{
    return feed_make(feed, split, indices, count, augment, f) && feed_send(feed, f);
}
