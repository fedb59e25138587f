/* Buffers and the ledger: figures, budget, custom allocators, visiting.
 *
 * The caller's allocator and log may use the context, also while it is destroyed. */
#include "runtime/memory/scratch.h"
#include "support/test.h"

static cl_mem create(
    clprune_context *context, clprune_memory_category category, const char *name, size_t bytes)
{
    cl_mem buffer = NULL;
    TEST_OK(clprune_buffer_create(context, category, name, bytes, &buffer));
    assert_non_null(buffer);
    return buffer;
}

/* A creation of category INPUT that fails. */
static void create_fails(clprune_context *context, const char *name, size_t bytes,
    clprune_status status, const char *part)
{
    cl_mem buffer = (cl_mem)(void *)&status;
    TEST_FAILS_IN(context,
        clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, name, bytes, &buffer), status, part);
    assert_null(buffer);
}

static void check_usage(const clprune_context *context, clprune_memory_category category,
    uint64_t live, uint64_t peak, uint64_t count)
{
    const clprune_memory_usage usage = clprune_memory_query(context, category);
    assert_int_equal(usage.live, live);
    assert_int_equal(usage.peak, peak);
    assert_int_equal(usage.count, count);
}

static void figures(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){0});
    for (int i = 0; i <= CLPRUNE_MEMORY_TOTAL; i++)
        assert_int_equal(clprune_memory_query(context, (clprune_memory_category)i).peak, 0);
    cl_mem a = create(context, CLPRUNE_MEMORY_INPUT, "a", 1000);
    cl_mem b = create(context, CLPRUNE_MEMORY_ACTIVATIONS, "b", 500);
    cl_mem c = create(context, CLPRUNE_MEMORY_INPUT, "c", 24);
    size_t size = 0;
    TEST_CL(clGetMemObjectInfo(a, CL_MEM_SIZE, sizeof size, &size, NULL));
    assert_int_equal(size, 1000);
    check_usage(context, CLPRUNE_MEMORY_INPUT, 1024, 1024, 2);
    check_usage(context, CLPRUNE_MEMORY_TOTAL, 1524, 1524, 3);
    check_usage(context, CLPRUNE_MEMORY_WORKSPACE, 0, 0, 0);
    clprune_buffer_release(context, a);
    check_usage(context, CLPRUNE_MEMORY_INPUT, 24, 1024, 1);
    /* The peak of the sum is not the sum of the peaks. */
    cl_mem d = create(context, CLPRUNE_MEMORY_ACTIVATIONS, "d", 600);
    check_usage(context, CLPRUNE_MEMORY_ACTIVATIONS, 1100, 1100, 2);
    check_usage(context, CLPRUNE_MEMORY_TOTAL, 1124, 1524, 3);
    clprune_memory_reset_peak(context);
    check_usage(context, CLPRUNE_MEMORY_TOTAL, 1124, 1124, 3);
    check_usage(context, CLPRUNE_MEMORY_INPUT, 24, 24, 1);
    clprune_buffer_release(context, b);
    clprune_buffer_release(context, c);
    clprune_buffer_release(context, d);
    check_usage(context, CLPRUNE_MEMORY_TOTAL, 0, 1124, 0);
}

static void empty_buffer(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){0});
    cl_mem buffer = create(context, CLPRUNE_MEMORY_OPTIMIZER, "none", 0);
    check_usage(context, CLPRUNE_MEMORY_OPTIMIZER, 0, 0, 1);
    clprune_buffer_release(context, buffer);
    check_usage(context, CLPRUNE_MEMORY_OPTIMIZER, 0, 0, 0);
}

static void budget(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){.mem_limit = 1000});
    static const char *const parts[] = {"too big", "401 bytes of device memory",
        "600 of 1000 bytes are in use", "or raise options.mem_limit"};
    cl_mem buffer = create(context, CLPRUNE_MEMORY_INPUT, "a", 600);
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        create_fails(context, "too big", 401, CLPRUNE_OUT_OF_DEVICE_MEMORY, parts[i]);
    create_fails(context, "far too big", SIZE_MAX, CLPRUNE_OUT_OF_DEVICE_MEMORY, "far too big");
    check_usage(context, CLPRUNE_MEMORY_TOTAL, 600, 600, 1);
    /* The handle goes on working. */
    cl_mem fits = create(context, CLPRUNE_MEMORY_WORKSPACE, "b", 400);
    clprune_buffer_release(context, fits);
    clprune_buffer_release(context, buffer);
    TEST_OK(clprune_context_finish(context));
}

static void over_the_device(NO_ROW)
{
    const uint64_t before = test_live(test_context(), CLPRUNE_MEMORY_TOTAL);
    create_fails(
        test_context(), "universe", (size_t)1 << 60, CLPRUNE_OUT_OF_DEVICE_MEMORY, "universe");
    assert_int_equal(test_live(test_context(), CLPRUNE_MEMORY_TOTAL), before);
}

static void note(void *user, const clprune_memory_entry *entry)
{
    const char **text = user;
    *text = test_text("%s%s:%s:%d ", *text, entry->name,
        clprune_memory_category_name(entry->category), (int)entry->bytes);
}

/* The entries of the ledger, "name:category:bytes ". */
static void check_entries(const clprune_context *context, const char *want)
{
    const char *text = "";
    clprune_memory_visit(context, note, &text);
    assert_string_equal(text, want);
}

typedef struct counting {
    int made, released;
    int fail_at; /* the number of the call that fails; -1: none */
    bool null_without_code;
    cl_int code;
} counting;

static cl_mem counting_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    counting *c = user;
    assert_true(bytes > 0);
    if (c->made == c->fail_at) {
        c->fail_at = -1;
        if (!c->null_without_code)
            *error = c->code;
        return NULL;
    }
    c->made++;
    return clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, error);
}

static void counting_release(void *user, cl_mem buffer)
{
    counting *c = user;
    c->released++;
    TEST_CL(clReleaseMemObject(buffer));
}

static void custom_allocator(NO_ROW)
{
    counting c = {.fail_at = -1};
    clprune_context *context = test_open(
        (clprune_context_options){.allocator = {counting_allocate, counting_release, &c}});
    cl_mem a = create(context, CLPRUNE_MEMORY_INPUT, "a", 10);
    (void)create(context, CLPRUNE_MEMORY_INPUT, "b", 0);
    assert_int_equal(c.made, 2);
    clprune_buffer_release(context, a);
    assert_int_equal(c.released, 1);
    test_end(context); /* releases what is left */
    assert_int_equal(c.released, 2);
}

static void failing_allocator(NO_ROW)
{
    static const struct {
        cl_int code;
        bool null_without_code;
        clprune_status status;
        const char *part;
    } rows[] = {
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, false, CLPRUNE_OUT_OF_DEVICE_MEMORY,
            "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
        {CL_OUT_OF_RESOURCES, false, CLPRUNE_OUT_OF_DEVICE_MEMORY, "CL_OUT_OF_RESOURCES"},
        {CL_INVALID_BUFFER_SIZE, false, CLPRUNE_OUT_OF_DEVICE_MEMORY,
            "the device's largest buffer has "},
        {CL_OUT_OF_HOST_MEMORY, false, CLPRUNE_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
        {CL_INVALID_VALUE, false, CLPRUNE_OPENCL_ERROR, "CL_INVALID_VALUE"},
        {CL_SUCCESS, true, CLPRUNE_OUT_OF_DEVICE_MEMORY, "frob"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        counting c = {
            .fail_at = 1, .code = rows[i].code, .null_without_code = rows[i].null_without_code};
        clprune_context *context = test_open(
            (clprune_context_options){.allocator = {counting_allocate, counting_release, &c}});
        (void)create(context, CLPRUNE_MEMORY_INPUT, "a", 10);
        create_fails(context, "frob", 10, rows[i].status, rows[i].part);
        test_says(clprune_last_error(context), "10 bytes for frob");
        check_usage(context, CLPRUNE_MEMORY_TOTAL, 10, 10, 1);
        (void)create(context, CLPRUNE_MEMORY_INPUT, "c", 10); /* and on it goes */
        test_end(context);
        assert_int_equal(c.made, c.released);
    }
}

typedef struct hooked {
    clprune_context *context;
    cl_mem cached, spare;
    int errors; /* logged */
} hooked;

/* Releases a buffer of the context to make room, and books another one. */
static cl_mem evicting_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    hooked *h = user;
    cl_mem cached = h->cached;
    h->cached = NULL;
    if (cached != NULL) {
        clprune_buffer_release(h->context, cached);
        h->spare = create(h->context, CLPRUNE_MEMORY_INPUT, "spare", 4);
    }
    return clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, error);
}

/* Queries the context, also while it is destroyed. */
static void querying_release(void *user, cl_mem buffer)
{
    const hooked *h = user;
    assert_non_null(clprune_precision_name(clprune_context_precision(h->context)));
    assert_true(strlen(clprune_context_tuning_source(h->context)) > 0);
    TEST_CL(clReleaseMemObject(buffer));
}

/* Books a buffer on the first error. */
static void creating_log(void *user, clprune_log_level level, const char *message)
{
    hooked *h = user;
    (void)message;
    if (level == CLPRUNE_LOG_ERROR && h->spare == NULL)
        h->spare = create(h->context, CLPRUNE_MEMORY_INPUT, "spare", 4);
}

/* The caller's functions may create and release buffers of the context. */
static void called_back(NO_ROW)
{
    hooked h = {0};
    h.context = test_open((clprune_context_options){.mem_limit = 1000,
        .allocator = {evicting_allocate, querying_release, &h},
        .log = creating_log,
        .log_user = &h});
    (void)create(h.context, CLPRUNE_MEMORY_INPUT, "first", 1);
    cl_mem cached = create(h.context, CLPRUNE_MEMORY_INPUT, "cached", 2);
    h.cached = cached;
    (void)create(h.context, CLPRUNE_MEMORY_INPUT, "second", 3);
    check_entries(h.context, "first:input:1 spare:input:4 second:input:3 ");
    clprune_buffer_release(h.context, h.spare);
    h.spare = NULL;
    create_fails(h.context, "b", 1000, CLPRUNE_OUT_OF_DEVICE_MEMORY, "b");
    check_entries(h.context, "first:input:1 second:input:3 spare:input:4 ");
    assert_int_equal(test_live(h.context, CLPRUNE_MEMORY_TOTAL), 8);
    test_end(h.context);
}

/* Books a large buffer while it allocates another one. */
static cl_mem greedy_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    hooked *h = user;
    if (h->context != NULL && h->spare == NULL && bytes == 600) {
        h->spare = (cl_mem)(void *)h; /* not again */
        h->spare = create(h->context, CLPRUNE_MEMORY_INPUT, "spare", 600);
    }
    return clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, error);
}

/* What the allocator takes counts before what it was called for is booked. */
static void budget_of_the_allocator(NO_ROW)
{
    hooked h = {0};
    h.context = test_open((clprune_context_options){
        .mem_limit = 1000, .allocator = {greedy_allocate, querying_release, &h}});
    create_fails(h.context, "b", 600, CLPRUNE_OUT_OF_DEVICE_MEMORY, "b");
    assert_int_equal(test_live(h.context, CLPRUNE_MEMORY_TOTAL), 600);
    clprune_buffer_release(h.context, h.spare);
    clprune_buffer_release(h.context, create(h.context, CLPRUNE_MEMORY_INPUT, "b", 600));
    test_end(h.context);
}

/* An allocator that refuses large buffers, after a call of its own that fails. */
static cl_mem refusing_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    hooked *h = user;
    cl_mem buffer;
    if (bytes < 1000)
        return clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, error);
    assert_int_equal(clprune_buffer_create(h->context, CLPRUNE_MEMORY_INPUT, NULL, 4, &buffer),
        CLPRUNE_INVALID_ARGUMENT);
    *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return NULL;
}

static void count_errors(void *user, clprune_log_level level, const char *message)
{
    hooked *h = user;
    (void)message;
    h->errors += level == CLPRUNE_LOG_ERROR;
}

/* Scratch tries to allocate its joint size, and is quiet if that is refused. The failures of the
 * caller's own calls are not. */
static void failures_of_the_allocator(NO_ROW)
{
    hooked h = {0};
    h.context =
        test_open((clprune_context_options){.allocator = {refusing_allocate, querying_release, &h},
            .log = count_errors,
            .log_user = &h});
    for (int step = 0; step < 2; step++) {
        const clprune__scratch_mark mark = clprune__scratch_begin(h.context);
        for (int piece = 0; piece < 2; piece++) {
            cl_mem buffer;
            size_t offset;
            TEST_OK(clprune__scratch_take(h.context, 768, &buffer, &offset));
        }
        clprune__scratch_end(h.context, mark);
    }
    assert_int_equal(h.errors, 1);
    test_says(clprune_last_error(h.context), "name is NULL");
    test_end(h.context);
}

/* Each allocation of an operation fails in turn: the call says so, and the next call works. */
static void allocations_fail_in_turn(NO_ROW)
{
    counting c = {.fail_at = -1, .code = CL_MEM_OBJECT_ALLOCATION_FAILURE};
    clprune_context *context = test_open(
        (clprune_context_options){.allocator = {counting_allocate, counting_release, &c}});
    clprune_mat mat;
    c.fail_at = 0;
    assert_int_equal(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "m", 3, 4, &mat),
        CLPRUNE_OUT_OF_DEVICE_MEMORY);
    assert_null(mat.buffer);
    assert_int_equal(mat.rows, 0);
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "m", 3, 4, &mat));
    assert_int_equal(mat.ld, 4);
    test_end(context);
    assert_int_equal(c.made, c.released);
}

static void bad_arguments(NO_ROW)
{
    clprune_context *context = test_context();
    cl_mem buffer = NULL;
    TEST_FAILS(clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, NULL, 1, &buffer),
        CLPRUNE_INVALID_ARGUMENT, "name");
    TEST_FAILS(clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, "x", 1, NULL),
        CLPRUNE_INVALID_ARGUMENT, "buffer");
    TEST_FAILS_IN(NULL, clprune_buffer_create(NULL, CLPRUNE_MEMORY_INPUT, "x", 1, &buffer),
        CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    clprune_buffer_release(context, NULL);
    clprune_buffer_release(NULL, NULL);
    clprune_memory_reset_peak(NULL);
    clprune_memory_visit(NULL, NULL, NULL);
    assert_int_equal(test_live(NULL, CLPRUNE_MEMORY_TOTAL), 0);
    assert_int_equal(clprune_memory_query(context, (clprune_memory_category)99).live, 0);
}

static void foreign_buffer_is_left_alone(NO_ROW)
{
    cl_int code;
    cl_mem foreign =
        clCreateBuffer(clprune_context_cl(test_context()), CL_MEM_READ_WRITE, 16, NULL, &code);
    TEST_CL(code);
    clprune_buffer_release(test_context(), foreign);
    cl_uint count = 0;
    TEST_CL(clGetMemObjectInfo(foreign, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL));
    assert_int_equal(count, 1);
    TEST_CL(clReleaseMemObject(foreign));
}

static void visit_order(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){0});
    char name[8] = "first"; /* the ledger must copy it */
    cl_mem first = create(context, CLPRUNE_MEMORY_INPUT, name, 1);
    strcpy(name, "gone");
    cl_mem second = create(context, CLPRUNE_MEMORY_GRADIENTS, "second", 2);
    (void)create(context, CLPRUNE_MEMORY_PARAMETERS, "third", 3);
    check_entries(context, "first:input:1 second:gradients:2 third:parameters:3 ");
    clprune_buffer_release(context, second);
    (void)create(context, CLPRUNE_MEMORY_GRADIENTS, "fourth", 4);
    clprune_buffer_release(context, first);
    check_entries(context, "third:parameters:3 fourth:gradients:4 ");
}

static void many_buffers(NO_ROW)
{
    enum { MANY = 300 };
    static cl_mem buffers[MANY];
    clprune_context *context = test_open((clprune_context_options){0});
    for (int i = 0; i < MANY; i++)
        buffers[i] = create(context, CLPRUNE_MEMORY_INPUT, "x", 4);
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_INPUT).count, MANY);
    for (int i = 0; i < MANY; i += 2)
        clprune_buffer_release(context, buffers[i]);
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_INPUT), MANY / 2 * 4);
}

/* What is written is read back, to the last byte of a size that no page divides. */
static void large_buffer(NO_ROW)
{
    enum { FLOATS = (5 << 18) + 3 };
    clprune_context *context = test_open((clprune_context_options){0});
    float *values = test_alloc(FLOATS * sizeof *values), *back = test_alloc(FLOATS * sizeof *back);
    for (int i = 0; i < FLOATS; i++)
        values[i] = (float)i;
    for (int round = 0; round < 3; round++) {
        const clprune_mat mat = test_new_mat_of(context, "x", 1, FLOATS, values);
        TEST_OK(clprune_mat_read(context, mat, back));
        for (int i = 0; i < FLOATS; i++)
            assert_true(back[i] == values[i]);
#ifdef __linux__
        void *memory = NULL;
        TEST_CL(clGetMemObjectInfo(mat.buffer, CL_MEM_HOST_PTR, sizeof memory, &memory, NULL));
        if (clprune_context_device_info(context).type & CL_DEVICE_TYPE_CPU)
            assert_true(memory != NULL && (uintptr_t)memory % (2 << 20) == 0);
        else
            assert_null(memory);
#endif
        test_end(mat.buffer);
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, figures, NULL, "live, peak and count by category and in total");
    test_add(&list, empty_buffer, NULL, "a buffer of zero bytes");
    test_add(&list, budget, NULL, "the budget refuses and the handle goes on working");
    test_add(&list, over_the_device, NULL, "the device's size is the default budget");
    test_add(&list, custom_allocator, NULL, "a custom allocator sees every buffer");
    test_add(&list, failing_allocator, NULL, "a failing allocator");
    test_add(&list, called_back, NULL, "an allocator and a log that change the ledger");
    test_add(&list, budget_of_the_allocator, NULL, "an allocator that takes the room");
    test_add(&list, failures_of_the_allocator, NULL, "an allocator whose own calls fail");
    test_add(&list, allocations_fail_in_turn, NULL, "a matrix whose allocation fails");
    test_add(&list, bad_arguments, NULL, "bad arguments");
    test_add(&list, foreign_buffer_is_left_alone, NULL, "a foreign buffer is not released");
    test_add(&list, visit_order, NULL, "visiting in order of creation");
    test_add(&list, many_buffers, NULL, "300 buffers");
    test_add(&list, large_buffer, NULL, "a large buffer holds its values");
    return test_run_on_devices("memory", &list);
}
