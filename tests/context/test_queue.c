/* Wait lists, and several queues of one OpenCL context on one clprune context.
 *
 * OpenCL leaves undefined what happens if an object that is no event is released while a user event
 * is pending that commands wait for: each release fails the case then. */
#include <time.h>

#include "support/test.h"

static int pending, held; /* user events that are not set; references to queues */

TEST_WRAP(cl_event, clCreateUserEvent, (cl_context cl, cl_int *code))
{
    pending++;
    return __real_clCreateUserEvent(cl, code);
}

TEST_WRAP(cl_int, clSetUserEventStatus, (cl_event event, cl_int state))
{
    const cl_int code = __real_clSetUserEventStatus(event, state);
    pending -= code == CL_SUCCESS;
    return code;
}

#define RELEASES(name, type)                                                                       \
    TEST_WRAP(cl_int, name, (type object))                                                         \
    {                                                                                              \
        if (pending > 0)                                                                           \
            fail_msg("%s while %d user events are pending", #name, pending);                       \
        held -= strcmp(#name, "clReleaseCommandQueue") == 0;                                       \
        return __real_##name(object);                                                              \
    }

RELEASES(clReleaseCommandQueue, cl_command_queue)
RELEASES(clReleaseContext, cl_context)
RELEASES(clReleaseKernel, cl_kernel)
RELEASES(clReleaseMemObject, cl_mem)
RELEASES(clReleaseProgram, cl_program)

TEST_WRAP(cl_int, clRetainCommandQueue, (cl_command_queue queue))
{
    held++;
    return __real_clRetainCommandQueue(queue);
}

TEST_WRAP(cl_command_queue, clCreateCommandQueue,
    (cl_context cl, cl_device_id device, cl_command_queue_properties properties, cl_int *code))
{
    held++;
    return __real_clCreateCommandQueue(cl, device, properties, code);
}

/* Long enough for a small kernel to run if nothing holds it back. */
static void let_it_run(cl_command_queue queue)
{
    TEST_CL(clFlush(queue));
    const struct timespec pause = {0, 50 * 1000 * 1000};
    (void)nanosleep(&pause, NULL);
}

static bool is_complete(cl_event event)
{
    cl_int state = CL_QUEUED;
    TEST_CL(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    return state == CL_COMPLETE;
}

static void check_filled(clprune_mat mat, float value)
{
    float host[64];
    assert_true(mat.rows * mat.cols <= 64);
    TEST_OK(clprune_mat_read(test_context(), mat, host));
    for (size_t i = 0; i < mat.rows * mat.cols; i++)
        assert_true(host[i] == value);
}

/* What is enqueued after clprune_context_wait starts after the events, not before. */
static void waits(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_mat mat = test_new_mat(context, 4, 16);
    cl_event gates[2] = {test_new_event(test_context()), test_new_event(test_context())}, filled;
    TEST_OK(clprune_mat_fill(context, 1, mat, NULL)); /* the kernel is built now */
    TEST_OK(clprune_context_finish(context));
    TEST_OK(clprune_context_wait(context, 2, gates));
    TEST_OK(clprune_mat_fill(context, 2, mat, &filled));
    let_it_run(clprune_context_queue(context));
    assert_false(is_complete(filled));
    TEST_CL(clSetUserEventStatus(gates[0], CL_COMPLETE));
    let_it_run(clprune_context_queue(context));
    assert_false(is_complete(filled)); /* both */
    TEST_CL(clSetUserEventStatus(gates[1], CL_COMPLETE));
    TEST_OK(clprune_context_finish(context));
    assert_true(is_complete(filled));
    check_filled(mat, 2);
    clReleaseEvent(filled);
}

/* Events of a caller's command on a queue of his own. */
static void waits_for_another_queue(NO_ROW)
{
    clprune_context *context = test_context();
    const float nine = 9;
    const clprune_mat from = test_new_mat(context, 4, 16), to = test_new_mat(context, 4, 16);
    TEST_OK(clprune_mat_fill(context, 0, from, NULL));
    TEST_OK(clprune_mat_copy(context, from, to, NULL));
    TEST_OK(clprune_context_finish(context));
    cl_command_queue other = test_new_queue(test_context(), 0);
    cl_event gate = test_new_event(test_context()), written;
    TEST_CL(clEnqueueFillBuffer(
        other, from.buffer, &nine, sizeof nine, 0, 64 * sizeof(float), 1, &gate, &written));
    TEST_CL(clFlush(other));
    TEST_OK(clprune_context_wait(context, 1, &written));
    clReleaseEvent(written); /* it is the library's to keep */
    TEST_OK(clprune_mat_copy(context, from, to, NULL));
    let_it_run(clprune_context_queue(context));
    TEST_CL(clSetUserEventStatus(gate, CL_COMPLETE));
    check_filled(to, 9);
}

/* A command on the new queue waits for those on the former one, which a gate holds back; the host
 * waits for neither. */
static void switching_orders(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_mat from = test_new_mat(context, 4, 16), to = test_new_mat(context, 4, 16);
    TEST_OK(clprune_mat_fill(context, 1, from, NULL));
    TEST_OK(clprune_mat_copy(context, from, to, NULL));
    TEST_OK(clprune_context_finish(context));
    cl_command_queue first = clprune_context_queue(context),
                     second = test_new_queue(test_context(), 0);
    TEST_CL(clRetainCommandQueue(first));
    cl_event gate = test_new_event(test_context()), copied;
    TEST_OK(clprune_context_wait(context, 1, &gate));
    TEST_OK(clprune_mat_fill(context, 5, from, NULL));
    TEST_OK(clprune_context_set_queue(context, second));
    assert_ptr_equal(clprune_context_queue(context), second);
    TEST_OK(clprune_mat_copy(context, from, to, &copied));
    let_it_run(second);
    assert_false(is_complete(copied));
    TEST_OK(clprune_context_set_queue(context, first)); /* and back, still closed */
    TEST_OK(clprune_mat_fill(context, 6, from, NULL));
    TEST_CL(clSetUserEventStatus(gate, CL_COMPLETE));
    TEST_OK(clprune_context_finish(context)); /* of the last queue alone: it is enough */
    assert_true(is_complete(copied));
    check_filled(to, 5);
    check_filled(from, 6);
    clReleaseEvent(copied);
    clReleaseCommandQueue(first);
}

enum { BATCH = 3, ROWS = 20, COLS = 64, OUT = 24, STEPS = 12 };

typedef struct work {
    clprune_mat x, dy, dw, h;
    clprune_bsr bsr;
} work;

/* Operations that borrow scratch, a few times with other numbers, each on the next queue. The
 * products of all steps, one after the other, are left in `all`. */
static void run_steps(const work *w, size_t queues, cl_command_queue const *queue, float *all)
{
    clprune_context *context = test_context();
    size_t next = 0;
#define NEXT_QUEUE() TEST_OK(clprune_context_set_queue(context, queue[next++ % queues]))
    for (int step = 0; step < STEPS; step++) {
        NEXT_QUEUE();
        TEST_OK(clprune_gemm(context, false, false, 0.01f, 1, w->dy, w->dw, w->h, NULL));
        NEXT_QUEUE();
        TEST_OK(clprune_mat_copy(context, w->h, w->x, NULL));
        NEXT_QUEUE();
        TEST_OK(clprune_prune(context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_SAMPLED, (uint64_t)step,
            w->x, &w->bsr, NULL));
        NEXT_QUEUE();
        TEST_OK(clprune_bspmm_tn(context, 0.125f, 0.5f, w->dy, &w->bsr, w->dw, NULL));
    }
#undef NEXT_QUEUE
    TEST_OK(clprune_mat_read(context, w->dw, all));
    TEST_OK(clprune_mat_read(context, w->h, all + OUT * COLS));
}

static void several_queues(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_bsr_desc shape = {.batch = BATCH,
        .rows = ROWS,
        .cols = COLS,
        .block = {1, 16},
        .keep = 29,
        .value_type = CLPRUNE_VALUES_INT8,
        .index_type = CLPRUNE_INDEX_BITMAP};
    enum { X = BATCH * ROWS * COLS, DY = BATCH * ROWS * OUT, DW = OUT * COLS };
    float *x = test_new_normal(7, X), *dy = test_new_normal(8, DY);
    float *one = test_alloc((DW + X) * sizeof *one), *many = test_alloc((DW + X) * sizeof *many);
    cl_command_queue first = clprune_context_queue(context);
    TEST_CL(clRetainCommandQueue(first));
    cl_command_queue queues[3] = {first, test_new_queue(test_context(), 0),
        test_new_queue(test_context(), CL_QUEUE_PROFILING_ENABLE)};
    work w;
    w.x = test_new_mat(context, BATCH * ROWS, COLS);
    w.h = test_new_mat(context, BATCH * ROWS, COLS);
    w.dy = test_new_mat(context, BATCH * ROWS, OUT);
    w.dw = test_new_mat(context, OUT, COLS);
    w.bsr = test_new_bsr(context, shape);
    TEST_OK(clprune_mat_write(context, w.dy, dy));
    for (int several = 0; several < 2; several++) {
        TEST_OK(clprune_mat_write(context, w.h, x));
        TEST_OK(clprune_mat_fill(context, 0, w.dw, NULL));
        run_steps(&w, several ? 3 : 1, queues, several ? many : one);
    }
    assert_memory_equal(one, many, (DW + X) * sizeof *one);
    TEST_OK(clprune_context_set_queue(context, first));
    TEST_OK(clprune_context_finish(context));
    TEST_CL(clReleaseCommandQueue(first));
}

static void queues_are_given_back(NO_ROW)
{
    cl_command_queue first = test_new_queue(test_context(), 0),
                     second = test_new_queue(test_context(), 0);
    const int before = held;
    clprune_context *context = test_open_on(first, NULL);
    const clprune_mat mat = test_new_mat(context, 4, 16);
    for (int i = 0; i < 5; i++) {
        TEST_OK(clprune_context_set_queue(context, second));
        TEST_OK(clprune_context_set_queue(context, second));
        TEST_OK(clprune_mat_fill(context, 1, mat, NULL));
        assert_int_equal(held, before + 2); /* the former one may be at work */
        TEST_OK(clprune_context_set_queue(context, first));
        TEST_OK(clprune_mat_fill(context, 2, mat, NULL));
    }
    assert_int_equal(held, before + 2);
    TEST_OK(clprune_context_finish(context));
    assert_int_equal(held, before + 1);
    TEST_OK(clprune_context_set_queue(context, second));
    assert_int_equal(held, before + 2);
    test_end(context);
    assert_int_equal(held, before);
    TEST_CL(clFinish(first));
    TEST_CL(clFinish(second));
}

static void refused(NO_ROW)
{
    clprune_context *context = test_context(), *other = test_open((clprune_context_options){0});
    clprune_context *dry = test_open_dry(NULL, NULL);
    cl_command_queue queue = clprune_context_queue(context);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    cl_command_queue_properties can = 0;
    TEST_CL(clGetDeviceInfo(
        clprune_context_device(context), CL_DEVICE_QUEUE_PROPERTIES, sizeof can, &can, NULL));
    if (can & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) {
        cl_command_queue loose =
            test_new_queue(test_context(), CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        const int before = held;
        TEST_FAILS(clprune_context_set_queue(context, loose), bad, "out-of-order");
        test_open_fails(loose, NULL, bad, "out-of-order");
        assert_int_equal(held, before);
    }
    cl_event foreign = test_new_event(other), pair[2] = {test_new_event(test_context()), NULL};
    assert_int_equal(clprune_context_wait(NULL, 1, pair), bad);
    TEST_FAILS(clprune_context_wait(context, 0, pair), bad, "count is 0");
    TEST_FAILS(clprune_context_wait(context, 1, NULL), bad, "events is NULL");
    TEST_FAILS(clprune_context_wait(context, 2, pair), bad, "events[1] is NULL");
    TEST_FAILS(clprune_context_wait(context, 1, &foreign), bad, "another OpenCL context");
    TEST_FAILS(
        clprune_context_wait(context, (size_t)1 << 32, pair), CLPRUNE_SIZE_OVERFLOW, "4294967296");
    TEST_OK(clprune_context_wait(dry, 1, &pair[1])); /* its own are NULL */
    assert_int_equal(clprune_context_wait(dry, 0, NULL), bad);

    assert_int_equal(clprune_context_set_queue(NULL, queue), bad);
    TEST_FAILS(clprune_context_set_queue(context, NULL), bad, "queue is NULL");
    TEST_FAILS(clprune_context_set_queue(context, clprune_context_queue(other)), bad,
        "another OpenCL context");
    assert_int_equal(clprune_context_set_queue(dry, queue), bad);
    assert_ptr_equal(clprune_context_queue(context), queue);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, waits, NULL, "later commands wait for the events");
    test_add(&list, waits_for_another_queue, NULL, "for a command on the caller's queue");
    test_add(&list, switching_orders, NULL, "a new queue waits for the former one");
    test_add(&list, several_queues, NULL, "three queues give the bits of one");
    test_add(&list, queues_are_given_back, NULL, "queues are retained and given back");
    test_add(&list, refused, NULL, "bad events and queues");
    return test_run_on_devices("queue", &list);
}
