/* Holds back all later commands of a context's queue, the test context's unless said, until a
 * thread opens the gate after a time, 100 ms unless said: shows whether a call waits for commands
 * in flight. */
#ifndef CLPRUNE_TEST_GATE_H
#define CLPRUNE_TEST_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "support/test_objects.h"

typedef struct test_gate {
    clprune_context *context;
    long milliseconds;
    cl_event event;
    pthread_t opener;
    atomic_bool open;
} test_gate;

static inline void *test_gate_open_later(void *argument)
{
    test_gate *g = argument;
    const struct timespec moment = {
        .tv_sec = g->milliseconds / 1000, .tv_nsec = g->milliseconds % 1000 * 1000 * 1000};
    (void)nanosleep(&moment, NULL);
    atomic_store(&g->open, true);
    (void)clSetUserEventStatus(g->event, CL_COMPLETE);
    return NULL;
}

static inline void test_gate_close_for(test_gate *g, clprune_context *context, long milliseconds)
{
    g->context = context;
    g->milliseconds = milliseconds;
    g->event = test_new_event(context);
    TEST_CL(clEnqueueBarrierWithWaitList(clprune_context_queue(context), 1, &g->event, NULL));
    atomic_store(&g->open, false);
    assert_int_equal(pthread_create(&g->opener, NULL, test_gate_open_later, g), 0);
}

static inline void test_gate_close(test_gate *g)
{
    test_gate_close_for(g, test_context(), 100);
}

/* Waits until the gate is open and the queue has finished. */
static inline void test_gate_remove(test_gate *g)
{
    assert_int_equal(pthread_join(g->opener, NULL), 0);
    TEST_OK(clprune_context_finish(g->context));
    test_end(g->event);
}

#endif
