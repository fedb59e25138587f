/* Holds back all later commands of a context's queue, the test context's unless said, until a
 * thread opens the gate after a time, 100 ms unless said: shows whether a call waits for commands
 * in flight. */
#ifndef CLPRUNE_TEST_GATE_H
#define CLPRUNE_TEST_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "support/test_device.h"

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
    cl_command_queue queue = clprune_context_queue(context);
    cl_context cl;
    cl_int code;
    assert_int_equal(
        clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof cl, &cl, NULL), CL_SUCCESS);
    g->context = context;
    g->milliseconds = milliseconds;
    g->event = clCreateUserEvent(cl, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(clEnqueueBarrierWithWaitList(queue, 1, &g->event, NULL), CL_SUCCESS);
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
    clReleaseEvent(g->event);
}

#endif
