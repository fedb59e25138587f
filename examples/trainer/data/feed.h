/*
 * feed.h: sends batches of samples to the device: images as bytes, which the passes normalise as
 * they read them, or tokens.
 *
 * While the device works on one batch, the next is read, augmented and put into a second host
 * buffer; the transfer is enqueued and not waited for. The queue is in-order, so one device buffer
 * is enough.
 */
#ifndef TRAINER_FEED_H
#define TRAINER_FEED_H

#include <clprune/clprune.h>

#include "trainer/base/fault.h"
#include "trainer/data/dataset.h"

typedef struct batch_feed {
    clprune_context *context; /* not owned */
    const dataset *data;      /* not owned */
    size_t batch;
    dataset_shape sample;
    clprune_image_bytes images; /* batch of them, on the device, and the data set's levels */
    clprune_ints tokens;        /* in place of images: batch * T of them */
    clprune_ints lengths;       /* of sentences: batch of them; else none */
    clprune_ints starts;        /* of texts apart: one for each token; else none */
    clprune_ints labels;        /* batch of them, or of each token or pixel */
    clprune_ints others;        /* of images that are mixed: batch of them; else none */
    clprune_mat shares;         /* likewise: batch x 1, of `labels` */
    struct feed_slot {
        uint8_t *inputs;                   /* read by the device until `done` */
        int32_t *labels, *behind, *others; /* behind: lengths or starts */
        float *shares;
        size_t count;
        cl_event done; /* of its transfer; NULL: free */
        bool is_read;  /* the device may still read it, and nothing can be waited for */
    } slot[2];
    unsigned next; /* the slot to fill */
} batch_feed;

/* Room for `batch` samples. On failure *feed needs no closing. */
bool feed_open(
    clprune_context *context, const dataset *data, size_t batch, batch_feed *feed, fault *f);
void feed_close(batch_feed *feed); /* accepts {0} */

/* Makes room for a second label of each image, which is mixed (dataset_batch_mixed). On failure the
 * caller closes *feed. */
bool feed_open_mix(batch_feed *feed, fault *f);

/* Makes the next batch on the host while the device works. Arguments as in dataset_batch. A second
 * call before feed_send replaces the batch. */
bool feed_make(batch_feed *feed, dataset_split split, const uint32_t *indices, size_t count,
    const augment_options *augment, fault *f);

/* Enqueues the transfer of the batch made last into feed->images or tokens, feed->lengths
 * or starts, feed->labels, and feed->others and shares if there are some. */
bool feed_send(batch_feed *feed, fault *f);

/* feed_make, then feed_send. */
bool feed_batch(batch_feed *feed, dataset_split split, const uint32_t *indices, size_t count,
    const augment_options *augment, fault *f);

/* The labels of the batch sent last, on the host, until the next one is made. */
const int32_t *feed_labels(const batch_feed *feed);

/* Records a fault of dataset.h as one of --data; returns whether there is none. */
bool feed_check(fault *f, const fault *of);

#endif
