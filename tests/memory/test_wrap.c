/* Host memory as matrices: zero-copy on CPU devices where it is aligned, staged elsewhere.
 *
 * Staged copies are booked. Gaps between rows are not written. Outputs of a call that fails keep
 * their contents. The host waits for the device. */
#include "support/test_gate.h"
#include "support/test_host.h"

typedef struct layout {
    const char *name;
    size_t shift; /* elements off the alignment */
    size_t rows, cols, ld;
} layout;

static const layout layouts[] = {
    {"aligned", 0, 7, 48, 48},
    {"aligned, with gaps", 0, 7, 33, 48},
    {"unaligned", 1, 7, 48, 48},
    {"unaligned, with gaps", 3, 7, 33, 40},
    {"one row", 0, 1, 5, 5},
    {"one element", 2, 1, 1, 9},
    {"large", 0, 600, 1000, 1000},
    {"large, unaligned, with gaps", 5, 600, 999, 1003},
};

static test_host *memory_make(const layout *l, uint64_t seed)
{
    return test_host_make(
        l->rows, l->cols, l->ld, l->shift, test_new_normal(seed, l->rows * l->cols));
}

static void set(test_host *h, float value)
{
    for (size_t i = 0; i < h->rows * h->cols; i++)
        h->at[i / h->cols * h->ld + i % h->cols] = value + (float)i;
}

static void check(const test_host *h, float value)
{
    float *want = test_floats(h->rows * h->cols);
    for (size_t i = 0; i < h->rows * h->cols; i++)
        want[i] = value + (float)i;
    test_host_check(h, want, "host memory");
}

static clprune_status wrap_in(
    clprune_context *context, const test_host *h, clprune_access access, clprune_mat *mat)
{
    return clprune_mat_wrap(context, h->at, h->rows, h->cols, h->ld, access, mat);
}

static clprune_status wrap(const test_host *m, clprune_access access, clprune_mat *mat)
{
    return wrap_in(test_context(), m, access, mat);
}

static bool is_zero_copy(const layout *l)
{
    return l->shift == 0 &&
           (clprune_context_device_info(test_context()).type & CL_DEVICE_TYPE_CPU) != 0;
}

/* Both directions, several times, as a training loop would. */
static void round_trips(void **state)
{
    const layout *l = *state;
    clprune_context *context = test_context();
    const uint64_t before = test_live(context, CLPRUNE_MEMORY_INPUT),
                   dense = l->rows * l->cols * sizeof(float);
    test_host *in = memory_make(l, 1), *out = memory_make(l, 2), *sum = memory_make(l, 3);
    clprune_mat x, y, z;
    set(in, 100);
    set(sum, 0.5f);
    TEST_OK(wrap(in, CLPRUNE_ACCESS_READ, &x));
    TEST_OK(wrap(out, CLPRUNE_ACCESS_WRITE, &y));
    TEST_OK(wrap(sum, CLPRUNE_ACCESS_READ_WRITE, &z));
    assert_int_equal(
        test_live(context, CLPRUNE_MEMORY_INPUT) - before, is_zero_copy(l) ? 0 : 3 * dense);
    assert_true(x.rows == l->rows && x.cols == l->cols && x.ld >= x.cols);
    for (int step = 0; step < 3; step++) {
        TEST_OK(clprune_mat_copy(context, z, y, NULL)); /* what z was */
        TEST_OK(clprune_mat_copy(context, x, z, NULL));
        TEST_OK(clprune_mat_sync_to_host(context, y));
        check(out, step == 0 ? 0.5f : 100 * (float)step);
        TEST_OK(clprune_mat_sync_to_host(context, y)); /* it is there */
        set(out, -1);                                  /* the host may write it too */
        TEST_OK(clprune_mat_sync_to_device(context, y));
        TEST_OK(clprune_mat_sync_to_device(context, y));
        TEST_OK(clprune_mat_sync_to_host(context, x));
        set(in, 100 * (float)(step + 2));
        TEST_OK(clprune_mat_sync_to_device(context, x));
    }
    TEST_OK(clprune_mat_sync_to_host(context, z));
    check(sum, 300);
    set(sum, 7);
    TEST_OK(clprune_mat_sync_to_device(context, z));
    TEST_OK(clprune_mat_copy(context, z, y, NULL));
    TEST_OK(clprune_mat_unwrap(context, &y)); /* from the device's hands */
    check(out, 7);
    TEST_OK(clprune_mat_sync_to_host(context, z));
    TEST_OK(clprune_mat_unwrap(context, &z)); /* from the host's */
    check(sum, 7);
    TEST_OK(clprune_mat_unwrap(context, &x));
    check(in, 400);
    assert_true(x.buffer == NULL && y.buffer == NULL && z.buffer == NULL && z.rows == 0);
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_INPUT), before);
}

/* The host gets the memory only when the work is done. */
static void waits(void **state)
{
    const layout *l = *state;
    clprune_context *context = test_context();
    test_host *out = memory_make(l, 1);
    clprune_mat y;
    const size_t n = l->rows;
    const clprune_mat x = test_new_mat(context, n, 2000);
    TEST_OK(clprune_mat_fill(context, 1, x, NULL));
    for (int round = 0; round < 2; round++) {
        TEST_OK(wrap(out, CLPRUNE_ACCESS_WRITE, &y));
        clprune_mat window = y;
        window.cols = n;
        for (int i = 0; i < 3; i++)
            TEST_OK(clprune_gemm(context, false, true, 1 + (float)i, 0, x, x, window, NULL));
        if (round == 0)
            TEST_OK(clprune_mat_sync_to_host(context, window)); /* any window of it */
        else
            TEST_OK(clprune_mat_unwrap(context, &y));
        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < n; c++)
                assert_true(out->at[r * l->ld + c] == 6000.0f);
        for (size_t r = 0; r < n; r++) /* and the device no more */
            out->at[r * l->ld] = 0;
        if (round == 0)
            TEST_OK(clprune_mat_unwrap(context, &y));
        assert_true(out->at[0] == 0.0f);
    }
}

static bool refuses_maps;

TEST_WRAP(void *, clEnqueueMapBuffer,
    (cl_command_queue queue, cl_mem buffer, cl_bool blocking, cl_map_flags flags, size_t offset,
        size_t size, cl_uint count, const cl_event *events, cl_event *event, cl_int *code))
{
    *code = CL_MAP_FAILURE;
    return refuses_maps ? NULL
                        : __real_clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size,
                              count, events, event, code);
}

/* Nothing is copied back to memory that is only read, but handing it over waits too. */
static void waits_for_reads(void **state)
{
    const layout *l = *state;
    test_host *in = memory_make(l, 1);
    clprune_mat x;
    test_gate g;
    TEST_OK(wrap(in, CLPRUNE_ACCESS_READ, &x));
    test_gate_close(&g);
    const clprune_status status = clprune_mat_sync_to_host(test_context(), x);
    const bool waited = atomic_load(&g.open);
    test_gate_remove(&g);
    TEST_OK(status);
    assert_true(waited);
    TEST_OK(clprune_mat_unwrap(test_context(), &x));
}

/* Unwrapping that fails has waited all the same: the caller may free the memory. */
static void fails_when_done(void **state)
{
    const layout *l = *state;
    test_host *out = memory_make(l, 1);
    clprune_mat y;
    test_gate g;
    TEST_OK(wrap(out, CLPRUNE_ACCESS_WRITE, &y));
    test_gate_close(&g);
    TEST_OK(clprune_mat_fill(test_context(), 3, y, NULL));
    refuses_maps = true;
    const clprune_status status = clprune_mat_unwrap(test_context(), &y);
    const bool waited = atomic_load(&g.open);
    refuses_maps = false;
    test_gate_remove(&g);
    assert_true(waited);
    assert_true(y.buffer == NULL);
    if (is_zero_copy(l))
        TEST_FAILS(status, CLPRUNE_OPENCL_ERROR, "clEnqueueMapBuffer");
    else
        TEST_OK(status);
}

/* Memory that the program may not write. */
static void constant(NO_ROW)
{
    clprune_context *context = test_context();
    static const _Alignas(CLPRUNE_WRAP_ALIGN) float ones[16] = {1, 2, 3, 4, 5, 6, 7, 8};
    float host[16] = {0};
    for (size_t shift = 0; shift < 2; shift++) {
        const clprune_mat y = test_new_mat(context, 1, 8);
        clprune_mat x;
        TEST_OK(clprune_mat_wrap(
            context, (float *)(uintptr_t)(ones + shift), 1, 8, 8, CLPRUNE_ACCESS_READ, &x));
        TEST_OK(clprune_mat_copy(context, x, y, NULL));
        TEST_OK(clprune_mat_read(context, y, host));
        TEST_OK(clprune_mat_unwrap(context, &x));
        assert_memory_equal(host, ones + shift, 8 * sizeof(float));
    }
}

/* What is still wrapped goes with its context. */
static void destroyed(NO_ROW)
{
    test_host *a = memory_make(&layouts[0], 1), *b = memory_make(&layouts[3], 2);
    for (int to_host = 0; to_host < 2; to_host++) {
        clprune_context *context = test_open((clprune_context_options){0});
        clprune_mat x, y;
        TEST_OK(wrap_in(context, a, CLPRUNE_ACCESS_READ_WRITE, &x));
        TEST_OK(wrap_in(context, b, CLPRUNE_ACCESS_READ_WRITE, &y));
        TEST_OK(clprune_mat_fill(context, 1, x, NULL));
        if (to_host) {
            TEST_OK(clprune_mat_sync_to_host(context, x));
            TEST_OK(clprune_mat_sync_to_host(context, y));
        }
        test_end(context);
    }
}

/* Nothing runs: the caller's memory keeps its values, with any access. */
static void dry(NO_ROW)
{
    clprune_context *context = test_open_dry(NULL, NULL);
    clprune_mat x;
    test_host *m = memory_make(&layouts[1], 1);
    set(m, 3);
    for (clprune_access access = CLPRUNE_ACCESS_READ; access <= CLPRUNE_ACCESS_READ_WRITE;
         access++) {
        const uint64_t before = clprune_context_commands(context);
        TEST_OK(wrap_in(context, m, access, &x));
        assert_int_equal(test_live(context, CLPRUNE_MEMORY_INPUT), 7 * 33 * sizeof(float));
        TEST_OK(clprune_mat_fill(context, 1, x, NULL));
        TEST_OK(clprune_mat_sync_to_host(context, x));
        check(m, 3);
        TEST_OK(clprune_mat_sync_to_device(context, x));
        TEST_OK(clprune_mat_unwrap(context, &x));
        assert_int_equal(test_live(context, CLPRUNE_MEMORY_INPUT), 0);
        check(m, 3);
        /* The fill, and twice a copy in each direction that there is. */
        const uint64_t copies = access == CLPRUNE_ACCESS_READ_WRITE ? 4 : 2;
        assert_int_equal(clprune_context_commands(context) - before, 1 + copies);
    }
}

static void refused(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_access read = CLPRUNE_ACCESS_READ;
    float host[16];
    clprune_mat mat = {(cl_mem)host, 1, 2, 3, 4};
    const clprune_mat other = test_new_mat(context, 1, 1);
#define WRAP(...) clprune_mat_wrap(context, __VA_ARGS__, &mat)
    assert_int_equal(clprune_mat_wrap(NULL, host, 1, 1, 1, read, &mat), bad);
    assert_true(mat.buffer == NULL && mat.rows == 0);
    TEST_FAILS(clprune_mat_wrap(context, host, 1, 1, 1, read, NULL), bad, "mat is NULL");
    TEST_FAILS(WRAP(NULL, 1, 1, 1, read), bad, "host is NULL");
    TEST_FAILS(WRAP(host, 2, 4, 3, read), bad, "ld is 3");
    TEST_FAILS(WRAP((float *)((char *)host + 1), 1, 1, 1, read), bad, "aligned");
    TEST_FAILS(WRAP(host, SIZE_MAX / 2, 4, 4, read), CLPRUNE_SIZE_OVERFLOW, "rows");
    TEST_OK(WRAP(NULL, 0, 4, 4, read)); /* nothing of it */
    assert_true(mat.rows == 0 && mat.cols == 4);
    TEST_OK(clprune_mat_sync_to_host(context, mat));
    TEST_OK(clprune_mat_sync_to_device(context, mat));
    TEST_OK(clprune_mat_unwrap(context, &mat));
    TEST_FAILS(clprune_mat_sync_to_host(context, other), bad, "not a wrapped");
    TEST_FAILS(clprune_mat_sync_to_device(context, other), bad, "not a wrapped");
    mat = other;
    TEST_FAILS(clprune_mat_unwrap(context, &mat), bad, "not a wrapped");
    TEST_FAILS(clprune_mat_unwrap(context, NULL), bad, "mat is NULL");
    assert_int_equal(clprune_mat_sync_to_host(NULL, other), bad);
    assert_int_equal(clprune_mat_sync_to_device(NULL, other), bad);
    mat = other;
    assert_int_equal(clprune_mat_unwrap(NULL, &mat), bad);
    assert_true(mat.buffer == NULL && mat.rows == 0);
    /* Over the budget: staged memory alone counts. */
    clprune_context *small = test_open((clprune_context_options){.mem_limit = 100});
    test_host *m = memory_make(&layouts[2], 1);
    assert_int_equal(wrap_in(small, m, read, &mat), CLPRUNE_OUT_OF_DEVICE_MEMORY);
    assert_null(mat.buffer);
}

/* Memory that is wrapped once more is refused where either is written and they share an element. */
static void overlaps(NO_ROW)
{
    clprune_context *context = test_context();
    float host[400] = {0};
    const clprune_access reads = CLPRUNE_ACCESS_READ, writes = CLPRUNE_ACCESS_WRITE;
    static const struct {
        size_t offset, rows, cols, ld;
        bool meets; /* rows 10 .. 13 of 20 floats from element 100 on, 8 of each */
    } rows[] = {
        {100, 4, 8, 20, true},
        {167, 1, 1, 1, true},
        {168, 1, 1, 1, false},
        {92, 1, 9, 9, true},
        {92, 1, 8, 8, false},
        {108, 4, 12, 20, false}, /* beside it */
        {107, 4, 12, 20, true},
        {108, 3, 12, 21, true}, /* another ld: not told apart */
        {0, 1, 400, 400, true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int pair = 0; pair < 4; pair++) {
            const clprune_access first = pair & 1 ? writes : reads;
            const clprune_access second = pair & 2 ? writes : reads;
            clprune_mat a, b = {.rows = 1};
            TEST_OK(clprune_mat_wrap(context, host + 100, 4, 8, 20, first, &a));
            const clprune_status status = clprune_mat_wrap(
                context, host + rows[i].offset, rows[i].rows, rows[i].cols, rows[i].ld, second, &b);
            if (rows[i].meets && pair != 0) {
                TEST_FAILS(status, CLPRUNE_INVALID_ARGUMENT, "host overlaps");
                assert_true(b.buffer == NULL && b.rows == 0);
            } else {
                TEST_OK(status);
                TEST_OK(clprune_mat_unwrap(context, &b));
            }
            TEST_OK(clprune_mat_unwrap(context, &a));
        }
}

int main(void)
{
    test_list list = {0};
    enum { LAYOUTS = COUNT_OF(layouts) };
    for (size_t i = 0; i < LAYOUTS; i++)
        test_add(&list, round_trips, &layouts[i], "round trips: %s", layouts[i].name);
    test_add(&list, waits, &layouts[LAYOUTS - 2], "the host waits for the device, zero-copy");
    test_add(&list, waits, &layouts[LAYOUTS - 1], "the host waits for the device, staged");
    test_add(&list, waits_for_reads, &layouts[0], "the host waits for reads, zero-copy");
    test_add(&list, waits_for_reads, &layouts[2], "the host waits for reads, staged");
    test_add(&list, fails_when_done, &layouts[0], "a failure leaves nothing in flight, zero-copy");
    test_add(&list, fails_when_done, &layouts[2], "a failure leaves nothing in flight, staged");
    test_add(&list, constant, NULL, "constant memory");
    test_add(&list, destroyed, NULL, "what is wrapped when its context goes");
    test_add(&list, dry, NULL, "in a dry context");
    test_add(&list, refused, NULL, "bad arguments");
    test_add(&list, overlaps, NULL, "memory that is wrapped already");
    return test_run_on_each_device("wrap", &list);
}
