/* Wait lists, and several queues of one OpenCL context on one clprune context. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/test_device.h"
#include "support/test_rng.h"

static cl_context cl_of(void)
{
    return clprune_context_cl(test_context());
}

static cl_command_queue make_queue(cl_command_queue_properties properties)
{
    cl_int code;
    cl_command_queue queue =
        clCreateCommandQueue(cl_of(), clprune_context_device(test_context()), properties, &code);
    assert_int_equal(code, CL_SUCCESS);
    return queue;
}

static cl_event make_gate(cl_context cl)
{
    cl_int code;
    cl_event gate = clCreateUserEvent(cl, &code);
    assert_int_equal(code, CL_SUCCESS);
    return gate;
}

/* Long enough for a small kernel to run if nothing holds it back. */
static void let_it_run(cl_command_queue queue)
{
    assert_int_equal(clFlush(queue), CL_SUCCESS);
    const struct timespec pause = {0, 50 * 1000 * 1000};
    (void)nanosleep(&pause, NULL);
}

static bool is_complete(cl_event event)
{
    cl_int state = CL_QUEUED;
    assert_int_equal(
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
        CL_SUCCESS);
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
static void waits(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    clprune_mat mat;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 4, 16, &mat));
    cl_event gates[2] = {make_gate(cl_of()), make_gate(cl_of())}, filled;
    TEST_OK(clprune_mat_fill(context, 1, mat, NULL)); /* the kernel is built now */
    TEST_OK(clprune_context_finish(context));
    TEST_OK(clprune_context_wait(context, 2, gates));
    TEST_OK(clprune_mat_fill(context, 2, mat, &filled));
    let_it_run(clprune_context_queue(context));
    assert_false(is_complete(filled));
    assert_int_equal(clSetUserEventStatus(gates[0], CL_COMPLETE), CL_SUCCESS);
    let_it_run(clprune_context_queue(context));
    assert_false(is_complete(filled)); /* both */
    assert_int_equal(clSetUserEventStatus(gates[1], CL_COMPLETE), CL_SUCCESS);
    TEST_OK(clprune_context_finish(context));
    assert_true(is_complete(filled));
    check_filled(mat, 2);
    clReleaseEvent(filled);
    clReleaseEvent(gates[0]);
    clReleaseEvent(gates[1]);
    clprune_buffer_release(context, mat.buffer);
}

/* Events of a caller's command on a queue of his own. */
static void waits_for_another_queue(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    clprune_mat from, to;
    const float nine = 9;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 4, 16, &from));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "y", 4, 16, &to));
    TEST_OK(clprune_mat_fill(context, 0, from, NULL));
    TEST_OK(clprune_mat_copy(context, from, to, NULL));
    TEST_OK(clprune_context_finish(context));
    cl_command_queue other = make_queue(0);
    cl_event gate = make_gate(cl_of()), written;
    assert_int_equal(clEnqueueFillBuffer(other, from.buffer, &nine, sizeof nine, 0,
                         64 * sizeof(float), 1, &gate, &written),
        CL_SUCCESS);
    assert_int_equal(clFlush(other), CL_SUCCESS);
    TEST_OK(clprune_context_wait(context, 1, &written));
    clReleaseEvent(written); /* it is the library's to keep */
    TEST_OK(clprune_mat_copy(context, from, to, NULL));
    let_it_run(clprune_context_queue(context));
    assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    check_filled(to, 9);
    clReleaseEvent(gate);
    clReleaseCommandQueue(other);
    clprune_buffer_release(context, from.buffer);
    clprune_buffer_release(context, to.buffer);
}

/* A command on the new queue waits for those on the former one, which a gate holds back; the host
 * waits for neither. */
static void switching_orders(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    clprune_mat from, to;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 4, 16, &from));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "y", 4, 16, &to));
    TEST_OK(clprune_mat_fill(context, 1, from, NULL));
    TEST_OK(clprune_mat_copy(context, from, to, NULL));
    TEST_OK(clprune_context_finish(context));
    cl_command_queue first = clprune_context_queue(context), second = make_queue(0);
    assert_int_equal(clRetainCommandQueue(first), CL_SUCCESS);
    cl_event gate = make_gate(cl_of()), copied;
    TEST_OK(clprune_context_wait(context, 1, &gate));
    TEST_OK(clprune_mat_fill(context, 5, from, NULL));
    TEST_OK(clprune_context_set_queue(context, second));
    assert_ptr_equal(clprune_context_queue(context), second);
    TEST_OK(clprune_mat_copy(context, from, to, &copied));
    let_it_run(second);
    assert_false(is_complete(copied));
    TEST_OK(clprune_context_set_queue(context, first)); /* and back, still closed */
    TEST_OK(clprune_mat_fill(context, 6, from, NULL));
    assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    TEST_OK(clprune_context_finish(context)); /* of the last queue alone: it is enough */
    assert_true(is_complete(copied));
    check_filled(to, 5);
    check_filled(from, 6);
    clReleaseEvent(copied);
    clReleaseEvent(gate);
    clReleaseCommandQueue(first);
    clReleaseCommandQueue(second);
    clprune_buffer_release(context, from.buffer);
    clprune_buffer_release(context, to.buffer);
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

static void several_queues(void **state)
{
    (void)state;
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
    assert_true(x != NULL && dy != NULL && one != NULL && many != NULL);
    cl_command_queue first = clprune_context_queue(context);
    assert_int_equal(clRetainCommandQueue(first), CL_SUCCESS);
    cl_command_queue queues[3] = {first, make_queue(0), make_queue(CL_QUEUE_PROFILING_ENABLE)};
    work w;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", BATCH * ROWS, COLS, &w.x));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "h", BATCH * ROWS, COLS, &w.h));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "dy", BATCH * ROWS, OUT, &w.dy));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "dw", OUT, COLS, &w.dw));
    TEST_OK(clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "kept", &shape, &w.bsr));
    TEST_OK(clprune_mat_write(context, w.dy, dy));
    for (int several = 0; several < 2; several++) {
        TEST_OK(clprune_mat_write(context, w.h, x));
        TEST_OK(clprune_mat_fill(context, 0, w.dw, NULL));
        run_steps(&w, several ? 3 : 1, queues, several ? many : one);
    }
    assert_memory_equal(one, many, (DW + X) * sizeof *one);
    TEST_OK(clprune_context_set_queue(context, first));
    TEST_OK(clprune_context_finish(context));
    for (int i = 0; i < 3; i++)
        assert_int_equal(clReleaseCommandQueue(queues[i]), CL_SUCCESS);
    clprune_bsr_destroy(context, &w.bsr);
    const clprune_mat mats[] = {w.x, w.h, w.dy, w.dw};
    for (size_t i = 0; i < 4; i++)
        clprune_buffer_release(context, mats[i].buffer);
}

static cl_uint references(cl_command_queue queue)
{
    cl_uint count = 0;
    assert_int_equal(
        clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL),
        CL_SUCCESS);
    return count;
}

/* A driver lets go of a queue when it has let go of the events of finished commands, which may be a
 * moment after clFinish. */
static void check_references(cl_command_queue queue, cl_uint count)
{
    for (int i = 0; i < 200 && references(queue) != count; i++)
        let_it_run(queue);
    assert_int_equal(references(queue), count);
}

static void queues_are_given_back(void **state)
{
    (void)state;
    cl_command_queue first = make_queue(0), second = make_queue(0);
    const cl_uint before = references(first);
    clprune_context *context;
    clprune_mat mat;
    assert_int_equal(clprune_context_create(first, NULL, &context), CLPRUNE_SUCCESS);
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 4, 16, &mat));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(clprune_context_set_queue(context, second), CLPRUNE_SUCCESS);
        assert_int_equal(clprune_context_set_queue(context, second), CLPRUNE_SUCCESS);
        TEST_OK(clprune_mat_fill(context, 1, mat, NULL));
        assert_true(references(second) > before);
        assert_int_equal(clprune_context_set_queue(context, first), CLPRUNE_SUCCESS);
        TEST_OK(clprune_mat_fill(context, 2, mat, NULL));
    }
    assert_int_equal(clprune_context_set_queue(context, second), CLPRUNE_SUCCESS);
    clprune_context_destroy(context);
    assert_int_equal(clFinish(first), CL_SUCCESS);
    assert_int_equal(clFinish(second), CL_SUCCESS);
    check_references(first, before);
    check_references(second, before);
    assert_int_equal(clReleaseCommandQueue(first), CL_SUCCESS);
    assert_int_equal(clReleaseCommandQueue(second), CL_SUCCESS);
}

static void refused(void **state)
{
    (void)state;
    clprune_context *context = test_context(), *other, *dry;
    cl_command_queue queue = clprune_context_queue(context);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    assert_int_equal(test_create((clprune_context_options){0}, &other), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_context_create_dry(NULL, NULL, &dry), CLPRUNE_SUCCESS);
    cl_event foreign = make_gate(clprune_context_cl(other)), pair[2] = {make_gate(cl_of()), NULL};
    assert_int_equal(clprune_context_wait(NULL, 1, pair), bad);
    TEST_FAILS(clprune_context_wait(context, 0, pair), bad, "count is 0");
    TEST_FAILS(clprune_context_wait(context, 1, NULL), bad, "events is NULL");
    TEST_FAILS(clprune_context_wait(context, 2, pair), bad, "events[1] is NULL");
    TEST_FAILS(clprune_context_wait(context, 1, &foreign), bad, "another OpenCL context");
    TEST_FAILS(
        clprune_context_wait(context, (size_t)1 << 32, pair), CLPRUNE_SIZE_OVERFLOW, "4294967296");
    assert_int_equal(
        clprune_context_wait(dry, 1, &pair[1]), CLPRUNE_SUCCESS); /* its own are NULL */
    assert_int_equal(clprune_context_wait(dry, 0, NULL), bad);

    assert_int_equal(clprune_context_set_queue(NULL, queue), bad);
    TEST_FAILS(clprune_context_set_queue(context, NULL), bad, "queue is NULL");
    TEST_FAILS(clprune_context_set_queue(context, clprune_context_queue(other)), bad,
        "another OpenCL context");
    assert_int_equal(clprune_context_set_queue(dry, queue), bad);
    cl_command_queue_properties can = 0;
    assert_int_equal(clGetDeviceInfo(clprune_context_device(context), CL_DEVICE_QUEUE_PROPERTIES,
                         sizeof can, &can, NULL),
        CL_SUCCESS);
    if (can & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) {
        cl_command_queue loose = make_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        TEST_FAILS(clprune_context_set_queue(context, loose), bad, "out-of-order");
        clReleaseCommandQueue(loose);
    }
    assert_ptr_equal(clprune_context_queue(context), queue);
    clReleaseEvent(foreign);
    clReleaseEvent(pair[0]);
    clprune_context_destroy(other);
    clprune_context_destroy(dry);
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
