/* Batches sent to the device: the next one is made meanwhile, and the host memory of a transfer
 * lives until the transfer is done, even if the next transfer was refused. */
#include "support/test_dataset.h"
#include "support/test_fault.h"
#include "support/test_gate.h"
#include "trainer/data/feed.h"

static int writes_left = -1; /* that succeed; below 0: all */

TEST_WRAP(cl_int, clEnqueueWriteBuffer,
    (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
        const void *from, cl_uint count, const cl_event *events, cl_event *event))
{
    if (writes_left == 0)
        return CL_OUT_OF_RESOURCES;
    writes_left -= writes_left > 0;
    return __real_clEnqueueWriteBuffer(
        queue, buffer, blocking, offset, size, from, count, events, event);
}

static const uint32_t indices[2] = {0, 1};

/* A feed of a set of two images, or sentences, whose transfers are held back. */
static void open_feed(batch_feed *feed, bool sentences, test_gate *gate)
{
    dataset_options sizes = {.image_size = 16, .train_limit = 2, .test_limit = 1};
    if (sentences) {
        sizes.context = 9;
        sizes.classes = 100;
        sizes.labels = 2;
    }
    TEST_GOOD(feed_open(test_context(), open_well("generated", &sizes), 2, feed, &f));
    test_gate_close(gate);
}

/* Closes a feed, the first *row of whose transfers were enqueued; 10 more: of sentences. */
static void closes_behind_gate(void **state)
{
    const int good = *(const int *)*state, all = good >= 10 ? 13 : 2;
    batch_feed feed;
    fault f = {0};
    test_gate g;
    open_feed(&feed, good >= 10, &g);
    writes_left = good % 10;
    const bool sent = feed_batch(&feed, DATASET_TRAIN, indices, 2, NULL, &f);
    writes_left = -1;
    assert_int_equal(sent, good == all);
    assert_int_equal(f.code, good == all ? CODE_OK : CODE_MEMORY);
    feed_close(&feed);
    const bool waited = atomic_load(&g.open);
    test_gate_remove(&g);
    assert_int_equal(waited, good % 10 > 0); /* nothing is in flight: nothing to wait for */
}

/* The next batch is made while the transfer of the last one is held back; a third batch takes the
 * memory of the first, so it waits. */
static void made_in_flight(NO_ROW)
{
    batch_feed feed;
    test_gate g;
    open_feed(&feed, false, &g);
    TEST_GOOD(feed_batch(&feed, DATASET_TRAIN, indices, 2, NULL, &f));
    TEST_GOOD(feed_batch(&feed, DATASET_TRAIN, indices, 2, NULL, &f));
    const bool waited = atomic_load(&g.open);
    TEST_GOOD(feed_make(&feed, DATASET_TRAIN, indices, 2, NULL, &f));
    const bool waited_third = atomic_load(&g.open);
    test_gate_remove(&g);
    feed_close(&feed);
    assert_false(waited);
    assert_true(waited_third);
}

/* Lengths are sent apart from tokens, which lie one behind the other; also of a part of a batch. */
static void lengths_apart(NO_ROW)
{
    enum { T = 9, COUNT = 2 };
    const dataset_options sizes = {
        .context = T, .classes = 100, .labels = 2, .train_limit = 5, .test_limit = 1};
    batch_feed feed;
    int32_t tokens[COUNT][T], lengths[COUNT], labels[COUNT], want[T + 1], label;
    dataset *data = open_well("generated", &sizes);
    TEST_GOOD(feed_open(test_context(), data, 3, &feed, &f));
    TEST_GOOD(feed_batch(&feed, DATASET_TRAIN, indices, COUNT, NULL, &f));
    const struct {
        cl_mem from;
        size_t bytes;
        void *to;
    } rows[] = {{feed.tokens.buffer, sizeof tokens, tokens},
        {feed.lengths.buffer, sizeof lengths, lengths},
        {feed.labels.buffer, sizeof labels, labels}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        TEST_CL(clEnqueueReadBuffer(clprune_context_queue(test_context()), rows[i].from, CL_TRUE, 0,
            rows[i].bytes, rows[i].to, 0, NULL, NULL));
    feed_close(&feed);
    for (uint32_t n = 0; n < COUNT; n++) {
        read_batch(data, DATASET_TRAIN, &n, 1, NULL, (uint8_t *)want, &label);
        assert_memory_equal(tokens[n], want, sizeof tokens[n]);
        assert_int_equal(lengths[n], want[T]);
        assert_int_equal(labels[n], label);
    }
}

int main(void)
{
    static const int writes[] = {0, 1, 2, 10, 11, 12, 13};
    test_list list = {0};
    test_add(&list, closes_behind_gate, &writes[2], "closed while images are in flight");
    test_add(&list, closes_behind_gate, &writes[1], "closed after the labels were refused");
    test_add(&list, closes_behind_gate, &writes[0], "closed after the images were refused");
    test_add(&list, closes_behind_gate, &writes[3], "closed after tokens were refused");
    test_add(&list, closes_behind_gate, &writes[4], "closed after lengths were refused");
    test_add(&list, closes_behind_gate, &writes[5], "closed after labels were refused");
    test_add(&list, closes_behind_gate, &writes[6], "closed while sentences are in flight");
    test_add(&list, lengths_apart, NULL, "lengths apart from tokens");
    test_add(&list, made_in_flight, NULL, "a batch made while the last one is in flight");
    return test_run_on_each_device("feed", &list);
}
