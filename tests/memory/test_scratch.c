/* Scratch: a stack of device memory that stops allocating once it has seen a step. */
#include "runtime/context/context_private.h"
#include "runtime/memory/scratch.h"
#include "support/test.h"

typedef struct counting {
    clprune_context *context;
    int made, live, refused;
    size_t most; /* bytes of a buffer that the device has; 0: any */
    cl_int code; /* of a refusal; 0: CL_MEM_OBJECT_ALLOCATION_FAILURE */
    int errors;  /* logged */
} counting;

static cl_mem count_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    counting *c = user;
    if (c->most > 0 && bytes > c->most) {
        c->refused++;
        *error = c->code != 0 ? c->code : CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    c->made++;
    c->live++;
    return clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, error);
}

static void count_release(void *user, cl_mem buffer)
{
    counting *c = user;
    c->live--;
    (void)clReleaseMemObject(buffer);
}

static void count_errors(void *user, clprune_log_level level, const char *message)
{
    counting *c = user;
    (void)message;
    c->errors += level == CLPRUNE_LOG_ERROR;
}

static void check_released(void *of, void *what)
{
    const counting *c = what;
    (void)of;
    assert_int_equal(c->live, 0);
}

/* A context whose buffers are counted; all are released when it is gone. */
static counting *open_counting(uint64_t limit)
{
    counting *c = test_alloc(sizeof *c);
    test_later(check_released, NULL, c);
    c->context =
        test_open((clprune_context_options){.allocator = {count_allocate, count_release, c},
            .mem_limit = limit,
            .log = count_errors,
            .log_user = c});
    return c;
}

typedef struct piece {
    cl_mem buffer;
    size_t offset, bytes;
} piece;

static piece take(clprune_context *context, size_t bytes)
{
    piece p = {.bytes = bytes};
    TEST_OK(clprune__scratch_take(context, bytes, &p.buffer, &p.offset));
    assert_non_null(p.buffer);
    assert_int_equal(p.offset % CLPRUNE__SCRATCH_ALIGN, 0);
    size_t size = 0;
    TEST_CL(clGetMemObjectInfo(p.buffer, CL_MEM_SIZE, sizeof size, &size, NULL));
    assert_true(p.offset + bytes <= size);
    return p;
}

/* What is borrowed at the same time never overlaps. */
static void check_apart(const piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            const piece *a = &pieces[i], *b = &pieces[j];
            if (a->buffer == b->buffer && a->offset < b->offset + b->bytes &&
                b->offset < a->offset + a->bytes)
                fail_msg("pieces %zu and %zu overlap", i, j);
        }
}

/* One operation. */
static void borrow(clprune_context *context, size_t count, const size_t *sizes)
{
    piece pieces[8];
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    for (size_t i = 0; i < count; i++)
        pieces[i] = take(context, sizes[i]);
    check_apart(pieces, count);
    clprune__scratch_end(context, mark);
}

static void pieces_are_apart(NO_ROW)
{
    clprune_context *context = open_counting(0)->context;
    static const size_t sizes[] = {1, 256, 257, 10000, 3, 100000, 5, 40000};
    for (int run = 0; run < 3; run++)
        borrow(context, COUNT_OF(sizes), sizes);
}

static void nested(NO_ROW)
{
    clprune_context *context = open_counting(0)->context;
    for (int run = 0; run < 3; run++) {
        piece pieces[3];
        const clprune__scratch_mark outer = clprune__scratch_begin(context);
        pieces[0] = take(context, 1000);
        for (int i = 0; i < 5; i++) { /* what the inner ones give back is reused */
            const clprune__scratch_mark inner = clprune__scratch_begin(context);
            pieces[1] = take(context, 5000u + 1000u * (unsigned)i);
            pieces[2] = take(context, 100);
            check_apart(pieces, 3);
            clprune__scratch_end(context, inner);
        }
        pieces[1] = take(context, 300);
        check_apart(pieces, 2);
        clprune__scratch_end(context, outer);
    }
}

static void a_step(clprune_context *context)
{
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    (void)take(context, 4000);
    const clprune__scratch_mark inner = clprune__scratch_begin(context);
    (void)take(context, 90000);
    (void)take(context, 7);
    clprune__scratch_end(context, inner);
    (void)take(context, 20000);
    clprune__scratch_end(context, mark);
}

static void steady_state(NO_ROW)
{
    counting *c = open_counting(0);
    clprune_context *context = c->context;
    a_step(context);
    a_step(context);
    const int made = c->made;
    for (int i = 0; i < 10; i++)
        a_step(context);
    assert_int_equal(c->made, made);
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_WORKSPACE).count, 1);
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).live,
        clprune_memory_query(context, CLPRUNE_MEMORY_WORKSPACE).live);
}

/* Three steps of two operations, whose pieces fit into buffers that the device has, but not all of
 * an operation into one. The third allocates nothing. */
static void in_pieces(void **state)
{
    static const size_t sizes[2][3] = {{70000, 50000, 20000}, {30000, 90000, 40000}};
    const cl_int code = *(const cl_int *)*state; /* 0: the device told its largest buffer */
    counting *c = open_counting(0);
    clprune_context *context = c->context;
    c->most = 100000;
    c->code = code;
    if (code == 0)
        context->facts.max_allocation = c->most;
    int made = 0, refused = 0;
    for (int step = 0; step < 6; step++) {
        if (step == 2) {
            made = c->made;
            refused = c->refused;
        }
        for (int o = 0; o < 2; o++)
            borrow(context, 3, sizes[o]);
    }
    assert_int_equal(c->made, made);
    assert_int_equal(c->refused, refused);
    if (code == 0)
        assert_int_equal(refused, 0);
    assert_int_equal(c->errors, 0); /* each call succeeded */
    assert_string_equal(clprune_last_error(context), "");
}

/* A borrowed buffer stays valid until the end, also one of zero bytes. */
static void zero_bytes(NO_ROW)
{
    clprune_context *context = open_counting(0)->context;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    const piece none = take(context, 0);
    (void)take(context, 1 << 20);
    (void)take(context, 1 << 21);
    size_t found = 0;
    const clprune__scratch *scratch = context->scratch;
    for (size_t i = 0; i < scratch->chunks; i++)
        found += scratch->chunk[i].buffer == none.buffer;
    assert_int_equal(found, 1);
    clprune__scratch_end(context, mark);
}

static void over_the_budget(NO_ROW)
{
    clprune_context *context = open_counting(10000)->context;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    const piece first = take(context, 2000);
    cl_mem buffer;
    size_t offset;
    assert_int_equal(
        clprune__scratch_take(context, 9000, &buffer, &offset), CLPRUNE_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(
        clprune__scratch_take(context, SIZE_MAX, &buffer, &offset), CLPRUNE_SIZE_OVERFLOW);
    assert_int_equal(clprune__scratch_take(context, SIZE_MAX - 300, &buffer, &offset),
        CLPRUNE_OUT_OF_DEVICE_MEMORY);
    const piece pieces[2] = {first, take(context, 3000)};
    check_apart(pieces, 2);
    clprune__scratch_end(context, mark);
    const clprune__scratch_mark again = clprune__scratch_begin(context);
    (void)take(context, 8000);
    clprune__scratch_end(context, again);
}

/* What was needed once may not fit any more, as something else has taken the room, within the
 * budget or of the device. What is needed now still does; and when there is room again, a step of
 * the old size runs. */
static void falls_back(void **state)
{
    const bool device = *(const bool *)*state;
    counting *c = open_counting(device ? 0 : 1 << 20);
    clprune_context *context = c->context;
    for (int step = 0; step < 2; step++) { /* two chunks, joined when the next step begins */
        borrow(context, 2, (const size_t[]){500000, 300000});
        if (step == 0)
            assert_int_equal(context->scratch->chunks, 0);
    }
    assert_int_equal(context->scratch->chunks, 1);
    borrow(context, 2, (const size_t[]){800000, 100000}); /* nothing is held, and much remembered */
    cl_mem other = NULL;
    if (device)
        c->most = 200000;
    else
        TEST_OK(clprune_buffer_create(
            context, CLPRUNE_MEMORY_INPUT, "other", (1 << 20) - 200000, &other));
    int made = 0;
    for (int step = 0; step < 5; step++) {
        if (step == 2)
            made = c->made;
        borrow(context, 2, (const size_t[]){100000, 50000});
    }
    assert_int_equal(c->made, made);
    assert_int_equal(c->errors, 0); /* each call succeeded */
    assert_string_equal(clprune_last_error(context), "");
    clprune_buffer_release(context, other);
    c->most = 0;
    borrow(context, 1, (const size_t[]){800000});
}

static void matrices(NO_ROW)
{
    clprune_context *context = open_counting(0)->context;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    clprune_mat a, b;
    const float values[6] = {1, 2, 3, 4, 5, 6};
    float back[6] = {0};
    TEST_OK(clprune__scratch_mat(context, 2, 3, &a));
    TEST_OK(clprune__scratch_mat(context, 2, 3, &b));
    TEST_OK(clprune_mat_write(context, a, values));
    TEST_OK(clprune_mat_fill(context, 9, b, NULL));
    TEST_OK(clprune_mat_read(context, a, back));
    assert_memory_equal(values, back, sizeof values);
    assert_int_equal(clprune__scratch_mat(context, SIZE_MAX / 2, 3, &b), CLPRUNE_SIZE_OVERFLOW);
    assert_null(b.buffer);
    clprune__scratch_end(context, mark);
}

/* On request, what an operation borrows is NaN, also where it was written before. */
static void poisoned(NO_ROW)
{
    test_debug("forget=poison");
    clprune_context *context = open_counting(0)->context;
    for (int run = 0; run < 2; run++) {
        const clprune__scratch_mark mark = clprune__scratch_begin(context);
        clprune_mat other, mat;
        float values[35];
        TEST_OK(clprune__scratch_mat(context, 1, 3, &other));
        TEST_OK(clprune_mat_fill(context, 2, other, NULL));
        TEST_OK(clprune__scratch_mat(context, 5, 7, &mat));
        TEST_OK(clprune_mat_read(context, mat, values));
        for (size_t i = 0; i < 35; i++)
            assert_true(isnan(values[i]));
        TEST_OK(clprune_mat_read(context, other, values));
        assert_true(values[2] == 2); /* what is borrowed already stays as it is */
        TEST_OK(clprune_mat_fill(context, 1, mat, NULL));
        clprune__scratch_end(context, mark);
    }
}

static void too_deep(NO_ROW)
{
    clprune_context *context = open_counting(0)->context;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; i < 2 * CLPRUNE__SCRATCH_CHUNKS && status == CLPRUNE_SUCCESS; i++) {
        cl_mem buffer;
        size_t offset;
        status = clprune__scratch_take(context, 1000, &buffer, &offset);
    }
    assert_int_equal(status, CLPRUNE_INTERNAL_ERROR);
    clprune__scratch_end(context, mark);
    a_step(context);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, pieces_are_apart, NULL, "pieces taken together are apart and aligned");
    test_add(&list, nested, NULL, "nested use");
    test_add(&list, steady_state, NULL, "no allocation from the third step on");
    test_add(&list, zero_bytes, NULL, "a piece of zero bytes has a buffer that stays");
    test_add(&list, over_the_budget, NULL, "over the budget");
    static const bool device[] = {false, true};
    static const cl_int codes[] = {0, CL_INVALID_BUFFER_SIZE, CL_MEM_OBJECT_ALLOCATION_FAILURE};
    static const char *const names[] = {"facts", "refusals of the size", "refusals"};
    for (size_t i = 0; i < 3; i++)
        test_add(&list, in_pieces, &codes[i], "pieces that no one buffer holds, by %s", names[i]);
    test_add(&list, falls_back, &device[0], "falls back to what is needed, within a budget");
    test_add(&list, falls_back, &device[1], "falls back to what is needed, on a full device");
    test_add(&list, matrices, NULL, "scratch matrices");
    test_add(&list, poisoned, NULL, "scratch is NaN on request");
    test_add(&list, too_deep, NULL, "too many chunks");
    return test_run_on_devices("scratch", &list);
}
