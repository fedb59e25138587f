/* Dry contexts and memory plans: lives, places, what is refused. */
#include "support/test_plan.h"
#include "support/test.h"

static int allocations_left; /* that succeed and one that does not; 0: all do */

TEST_WRAP(void *, realloc, (void *memory, size_t size))
{
    if (allocations_left > 0 && --allocations_left == 0)
        return NULL;
    return __real_realloc(memory, size);
}

static void assert_span(clprune_plan_span span, uint64_t first, uint64_t last)
{
    assert_int_equal(span.first, first);
    assert_int_equal(span.last, last);
}

/* A dry context counts each program that its commands need once: as many as are built or loaded
 * where the commands run. */
static void programs(NO_ROW)
{
    clprune_context *contexts[] = {open_dry(), open_real()};
    uint64_t counts[2];
    for (size_t i = 0; i < 2; i++) {
        clprune_context *context = contexts[i];
        const clprune_mat a = create(context, "a", 40, 24), b = create(context, "b", 40, 24);
        clprune_cache_stats stats[2];
        for (size_t k = 0; k < 2; k++) {
            TEST_OK(clprune_mat_fill(context, 1.0f, a, NULL));
            TEST_OK(clprune_mat_copy(context, a, b, NULL));
            TEST_OK(clprune_activation_forward(
                context, CLPRUNE_ACTIVATION_RELU, 0, 0, b, CLPRUNE_NO_MAT, b, NULL, NULL));
            TEST_OK(clprune_activation_forward(
                context, CLPRUNE_ACTIVATION_RELU, 0, 0, a, CLPRUNE_NO_MAT, b, NULL, NULL));
            stats[k] = clprune_context_cache_stats(context);
        }
        assert_int_equal(stats[0].builds, stats[1].builds);
        counts[i] = stats[0].builds + stats[0].disk_hits;
        assert_true(i == 1 || stats[1].disk_hits + stats[1].rejected == 0);
    }
    assert_true(counts[0] > 1);
    assert_int_equal(counts[0], counts[1]);
}

/* What a plan's commands need is built at once, and nothing later. */
static void built_before(NO_ROW)
{
    clprune_context *contexts[] = {open_dry(), open_real()};
    const clprune_plan *plan = NULL;
    for (size_t i = 0; i < 2; i++) {
        clprune_context *context = contexts[i];
        clprune_cache_stats before = {0};
        if (i == 0) {
            TEST_OK(clprune_plan_begin(context));
        } else {
            TEST_OK(clprune_plan_build(context, plan));
            TEST_OK(clprune_context_use_plan(context, plan));
        }
        before = clprune_context_cache_stats(context);
        const clprune_mat a = create(context, "a", 40, 24), b = create(context, "b", 40, 24);
        TEST_OK(clprune_mat_fill(context, 1.0f, a, NULL));
        TEST_OK(clprune_activation_forward(
            context, CLPRUNE_ACTIVATION_RELU, 0, 0, a, CLPRUNE_NO_MAT, b, NULL, NULL));
        const clprune_cache_stats after = clprune_context_cache_stats(context);
        if (i == 0)
            plan = test_new_plan(context);
        else
            assert_true(before.builds + before.disk_hits > 0);
        assert_int_equal(after.builds + after.disk_hits - before.builds - before.disk_hits,
            i == 0 ? after.builds : 0);
    }
}

/* By hand: a dies after command 1, c is made in its place, and a lives again. */
static void lives(NO_ROW)
{
    clprune_context *dry = open_dry();
    const clprune_mat early = create(dry, "early", 100, 10);
    TEST_OK(clprune_mat_fill(dry, 0.0f, early, NULL)); /* command 0 */
    TEST_OK(clprune_plan_begin(dry));
    const clprune_mat a = create(dry, "a", 100, 10), b = create(dry, "b", 50, 10),
                      c = create(dry, "c", 100, 10), idle = create(dry, "idle", 1, 1);
    TEST_OK(clprune_mat_fill(dry, 1.0f, a, NULL));                       /* 1 */
    TEST_OK(clprune_mat_copy(dry, clprune_mat_rows(a, 0, 50), b, NULL)); /* 2 */
    TEST_OK(clprune_buffer_forget(dry, a.buffer));
    TEST_OK(clprune_mat_fill(dry, 2.0f, c, NULL));                       /* 3 */
    TEST_OK(clprune_mat_copy(dry, b, clprune_mat_rows(c, 0, 50), NULL)); /* 4 */
    TEST_OK(clprune_plan_end_step(dry));
    TEST_OK(clprune_mat_fill(dry, 3.0f, clprune_mat_rows(a, 3, 1), NULL)); /* 5 */
    TEST_OK(clprune_mat_fill(dry, 3.0f, clprune_mat_rows(a, 0, 0), NULL)); /* nothing */
    assert_int_equal(clprune_context_commands(dry), 6);
    (void)idle;

    const clprune_plan *plan = test_new_plan(dry);
    test_end(dry); /* the plan stays */
    const entries all = entries_of(plan);
    assert_int_equal(all.count, 4);
    assert_string_equal(all.entry[0].name, "a");
    assert_int_equal(all.entry[0].bytes, 4000);
    assert_int_equal(all.entry[0].spans_count, 2);
    assert_span(all.entry[0].spans[0], 1, 2);
    assert_span(all.entry[0].spans[1], 5, 5);
    assert_int_equal(all.entry[1].spans_count, 1);
    assert_span(all.entry[1].spans[0], 2, 4);
    assert_span(all.entry[2].spans[0], 3, 4);
    assert_int_equal(all.entry[3].spans_count, 0);
    assert_int_equal(all.entry[0].offset, all.entry[2].offset);
    const clprune_plan_totals totals = clprune_plan_sizes(plan);
    assert_int_equal(totals.commands, 6);
    assert_int_equal(totals.other_bytes, 4000);
    assert_int_equal(totals.live_bytes, 6000);
    assert_int_equal(totals.buffer_bytes, 10004 + totals.scratch_bytes);
    assert_int_equal(totals.arena_bytes, 4096 + 2048 + 1024);
    check_places(plan);
}

/* Random programs of many small steps, with odd seeds in small slabs. */
static void random_lives(void **state)
{
    const uint32_t seed = *(const uint32_t *)*state;
    largest = seed % 2 == 1 ? 50000 : 0;
    test_rng rng = {seed};
    clprune_context *dry = open_dry();
    clprune_mat mats[40];
    const clprune_mat ls = create(dry, "ls", 1, 4), dls = create(dry, "dls", 1, 4),
                      big = create(dry, "big", 2000, 4);
    clprune_mat dy;
    TEST_OK(clprune_plan_begin(dry));
    for (size_t i = 0; i < 40; i++)
        mats[i] = create(dry, "m", 1 + test_rng_below(&rng, 2000), 4);
    for (size_t k = 0; k < 300; k++) {
        const clprune_mat mat = mats[test_rng_below(&rng, 40)];
        switch (test_rng_below(&rng, 8)) {
        case 0:
            TEST_OK(clprune_buffer_forget(dry, mat.buffer));
            break;
        case 1: /* borrows for its sums */
            dy = clprune_mat_rows(big, 0, mat.rows);
            TEST_OK(clprune_layerscale_backward(
                dry, 0, mat, ls, dy, mat, &(clprune_layerscale_grads){.dls = dls}, NULL));
            break;
        case 2:
        case 3: { /* touches two */
            const clprune_mat to = mats[test_rng_below(&rng, 40)];
            const size_t rows = mat.rows < to.rows ? mat.rows : to.rows;
            if (mat.buffer != to.buffer)
                TEST_OK(clprune_mat_copy(
                    dry, clprune_mat_rows(mat, 0, rows), clprune_mat_rows(to, 0, rows), NULL));
            TEST_OK(clprune_buffer_forget(dry, mat.buffer));
            break;
        }
        default:
            TEST_OK(clprune_mat_fill(dry, 0.0f, mat, NULL));
        }
        if (k % 100 == 99)
            TEST_OK(clprune_plan_end_step(dry));
    }
    const clprune_plan *plan = test_new_plan(dry);
    check_places(plan);
    assert_true(clprune_plan_sizes(plan).scratch_bytes > 0);
    largest = 0;
}

/* Memory from malloc full of 2: what a driver might hand out. */
static cl_mem allocate_twos(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    const float two = 2;
    *(size_t *)user += 1;
    float *host = test_alloc(bytes + sizeof *host);
    for (size_t i = 0; i <= bytes / sizeof *host; i++)
        host[i] = two;
    return clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, host, error);
}

static void release_twos(void *user, cl_mem buffer)
{
    (void)user;
    clReleaseMemObject(buffer);
}

/* Everything that creates buffers: each is NaN in all whole floats, or as the driver made it. */
static void check_fresh(clprune_context *context, cl_mem buffer, bool on)
{
    size_t bytes;
    TEST_CL(clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL));
    float *values = test_alloc(bytes + sizeof *values);
    TEST_CL(clEnqueueReadBuffer(
        clprune_context_queue(context), buffer, true, 0, bytes, values, 0, NULL, NULL));
    for (size_t i = 0; i < bytes / sizeof *values; i++)
        assert_true(on ? values[i] != values[i] : values[i] == 2.0f);
}

static void fresh(NO_ROW)
{
    for (int on = 0; on < 2; on++) {
        size_t made = 0;
        test_debug(on ? "forget=poison" : "forget=keep");
        clprune_context *context =
            test_open((clprune_context_options){.allocator = {allocate_twos, release_twos, &made}});
        const size_t opened = made;
        static const size_t bytes[] = {1, 3, 4, 7, 64, 4097, (size_t)5 << 20};
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
            cl_mem buffer;
            TEST_OK(clprune_buffer_create(
                context, CLPRUNE_MEMORY_ACTIVATIONS, "buffer", bytes[i], &buffer));
            check_fresh(context, buffer, on);
            clprune_buffer_release(context, buffer);
        }
        check_fresh(context, create(context, "mat", 3, 5).buffer, on);
        const clprune_bsr_desc shape = {1, 4, 16, {1, 4}, 3};
        clprune_bsr bsr;
        TEST_OK(clprune_bsr_create(context, CLPRUNE_MEMORY_INPUT, "bsr", &shape, &bsr));
        check_fresh(context, bsr.values, on);
        check_fresh(context, bsr.col, on);
        clprune_bsr_destroy(context, &bsr);
        assert_true(made > opened + 8);
    }
}

/* A forgotten buffer is NaN where that is asked for, and only there. */
static void poison(NO_ROW)
{
    for (int on = 0; on < 2; on++) {
        float values[6];
        test_debug(on ? "forget=poison" : "forget=keep");
        clprune_context *context = open_real();
        const clprune_mat mat = create(context, "mat", 2, 3);
        TEST_OK(clprune_mat_fill(context, 1.0f, mat, NULL));
        TEST_OK(clprune_buffer_forget(context, mat.buffer));
        TEST_OK(clprune_buffer_forget(context, NULL));
        TEST_OK(clprune_mat_read(context, mat, values));
        for (int i = 0; i < 6; i++)
            assert_true(on ? values[i] != values[i] : values[i] == 1.0f);
    }
    test_debug("forget=sometimes");
    test_open_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT, "sometimes");
}

#define BAD(context, call, text) TEST_FAILS_IN(context, call, CLPRUNE_INVALID_ARGUMENT, text)

static void refusals(NO_ROW)
{
    clprune_plan *plan = (clprune_plan *)1;
    clprune_context *dry = open_dry(), *real = open_real();
    BAD(real, clprune_plan_begin(real), "not dry");
    BAD(NULL, clprune_plan_end_step(NULL), "context is NULL");
    BAD(real, clprune_plan_create(real, &plan), "not dry");
    assert_null(plan);
    BAD(dry, clprune_plan_create(dry, &plan), "clprune_plan_begin");
    BAD(dry, clprune_plan_create(dry, NULL), "plan is NULL");
    BAD(NULL, clprune_plan_begin(NULL), "context is NULL");
    const clprune_mat foreign = create(real, "foreign", 4, 4);
    BAD(dry, clprune_mat_fill(dry, 0.0f, foreign, NULL), "dry context");
    BAD(dry, clprune_buffer_forget(dry, foreign.buffer), "dry context");
    TEST_OK(clprune_plan_begin(dry));
    BAD(dry, clprune_plan_begin(dry), "called before");
    const clprune_mat mat = create(dry, "mat", 1000, 10);
    float value[10];
    TEST_OK(clprune_mat_read(dry, clprune_mat_rows(mat, 5, 1), value));
    for (int i = 0; i < 10; i++)
        assert_true(value[i] == 0.0f);
    cl_event event = (cl_event)1;
    TEST_OK(clprune_mat_fill(dry, 0.0f, mat, &event));
    assert_null(event);
    TEST_OK(clprune_context_finish(dry));
    clprune_bsr bsr;
    const clprune_bsr_desc shape = {1, 4, 16, {1, 4}, 3};
    TEST_OK(clprune_bsr_create(dry, CLPRUNE_MEMORY_INPUT, "bsr", &shape, &bsr));
    assert_int_equal(clprune_bsr_validate(dry, &bsr), CLPRUNE_UNSUPPORTED);
    clprune_bsr_destroy(dry, &bsr);
    TEST_OK(clprune_plan_create(dry, &plan));
    BAD(dry, clprune_context_use_plan(dry, plan), "is dry");
    BAD(dry, clprune_plan_build(dry, plan), "is dry");
    BAD(real, clprune_plan_build(real, NULL), "plan is NULL");
    TEST_OK(clprune_context_use_plan(real, plan));
    BAD(real, clprune_context_use_plan(real, plan), "an arena already");
    /* Only the very buffer lies in the arena, and once. */
    const uint64_t total = test_live(real, CLPRUNE_MEMORY_TOTAL);
    const clprune_mat other = create(real, "mat", 1000, 11), first = create(real, "mat", 1000, 10),
                      second = create(real, "mat", 1000, 10);
    assert_int_equal(test_live(real, CLPRUNE_MEMORY_TOTAL), total + 44000 + 40000);
    static float there[10000], back[10000]; /* transfers reach the place */
    test_fill_normal(1, 10000, there);
    TEST_OK(clprune_mat_fill(real, 0.0f, first, NULL));
    TEST_OK(clprune_mat_write(real, clprune_mat_rows(first, 10, 500), there));
    TEST_OK(clprune_mat_read(real, clprune_mat_rows(first, 10, 500), back));
    assert_memory_equal(back, there, 500 * 10 * sizeof *there);
    TEST_OK(clprune_mat_copy(real, first, second, NULL));
    TEST_OK(clprune_mat_read(real, second, back));
    assert_memory_equal(back + 100, there, 500 * 10 * sizeof *there);
    for (int i = 0; i < 100; i++)
        assert_true(back[i] == 0.0f && back[5100 + i] == 0.0f);
    clprune_buffer_release(real, first.buffer);
    assert_int_equal(test_live(real, CLPRUNE_MEMORY_TOTAL), total + 44000 + 40000);
    clprune_buffer_release(real, second.buffer);
    clprune_buffer_release(real, other.buffer);
    test_end(real);

    /* No room for the arena: nothing is held, and the context goes on. */
    const clprune_context_options options = {
        .mem_limit = 30000, .kernels = clprune_context_kernels(test_context())};
    clprune_context *narrow = test_open(options);
    assert_int_equal(clprune_context_use_plan(narrow, plan), CLPRUNE_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(test_live(narrow, CLPRUNE_MEMORY_TOTAL), 0);
    const clprune_mat small = create(narrow, "small", 10, 10);
    TEST_OK(clprune_mat_fill(narrow, 0.0f, small, NULL));
    clprune_plan_destroy(plan);
    clprune_plan_destroy(NULL);
    const clprune_device_info nothing = {.vector_width = 16};
    assert_int_equal(clprune_context_create_dry(&nothing, NULL, &dry), CLPRUNE_INVALID_ARGUMENT);
    assert_null(dry);
}

static void no_release(void *user, cl_mem buffer)
{
    (void)user;
    (void)buffer;
}

/* A dry context does not look at options of a device, even if no device would take them. */
static void ignored_options(NO_ROW)
{
    const clprune_context_options options = {.device = "no such device",
        .cache_dir = "/no/such/folder",
        .allocator = {.release = no_release}};
    clprune_context *dry = test_open_dry(NULL, &options);
    clprune_buffer_release(dry, create(dry, "x", 4, 4).buffer);
}

/* Buffers of a dry context may exceed $CLPRUNE_MEM_LIMIT and the device, side by side: only
 * options.mem_limit is its budget. */
static void dry_budget(NO_ROW)
{
    clprune_device_info device = clprune_context_device_info(test_context());
    clprune_mat refused;
    device.global_memory = 1 << 20;
    test_environment("CLPRUNE_MEM_LIMIT", "1M");
    const clprune_context_options options = {.mem_limit = 1 << 20};
    clprune_context *dry = test_open_dry(&device, NULL), *narrow = test_open_dry(&device, &options);
    for (int i = 0; i < 10; i++)
        (void)create(dry, "x", 256, 256);
    for (int i = 0; i < 4; i++)
        (void)create(narrow, "x", 256, 256);
    assert_int_equal(clprune_mat_create(narrow, CLPRUNE_MEMORY_ACTIVATIONS, "x", 1, 1, &refused),
        CLPRUNE_OUT_OF_DEVICE_MEMORY);
}

/* A place is given once, also in poison mode, where it is no place: a second buffer of the same
 * name and size is none that a step forgets. */
static void given_once(NO_ROW)
{
    for (int on = 0; on < 2; on++) {
        float value[16];
        test_debug(on ? "forget=poison" : "forget=keep");
        clprune_context *dry = open_dry(), *context = open_real();
        TEST_OK(clprune_plan_begin(dry));
        TEST_OK(clprune_mat_fill(dry, 1.0f, create(dry, "x", 1, 16), NULL));
        TEST_OK(clprune_plan_end_step(dry));
        TEST_OK(clprune_context_use_plan(context, test_new_plan(dry)));
        const clprune_mat first = create(context, "x", 1, 16), second = create(context, "x", 1, 16);
        TEST_OK(clprune_mat_fill(context, 6.0f, first, NULL));
        TEST_OK(clprune_mat_fill(context, 7.0f, second, NULL));
        TEST_OK(clprune_plan_end_step(context));
        TEST_OK(clprune_mat_read(context, second, value));
        assert_true(value[0] == 7.0f);
        TEST_OK(clprune_mat_read(context, first, value));
        assert_true(on ? value[0] != value[0] : value[0] == 6.0f);
    }
}

/* Dry commands have no event: *event becomes NULL, whatever it was. */
static void dry_events(NO_ROW)
{
    clprune_context *dry = open_dry();
    const clprune_mat x = create(dry, "x", 2, 8), y = create(dry, "y", 2, 8);
    for (size_t rows = 0; rows <= 2; rows++) {
        cl_event event = (cl_event)(void *)&x;
        TEST_OK(clprune_mat_copy(
            dry, clprune_mat_rows(x, 0, rows), clprune_mat_rows(y, 0, rows), &event));
        assert_null(event);
    }
}

/* A command that fails half noted, for want of memory, leaves a context that can be planned. */
static void half_noted(NO_ROW)
{
    for (int at = 1;; at++) {
        clprune_context *dry = open_dry();
        TEST_OK(clprune_plan_begin(dry));
        const clprune_mat a = create(dry, "a", 4, 4), b = create(dry, "b", 4, 4);
        TEST_OK(clprune_mat_fill(dry, 0, a, NULL));
        for (int i = 0; i < 4; i++) { /* the next life of b needs room */
            TEST_OK(clprune_mat_fill(dry, 0, b, NULL));
            TEST_OK(clprune_buffer_forget(dry, b.buffer));
        }
        allocations_left = at;
        const clprune_status status = clprune_mat_copy(dry, a, b, NULL);
        const bool failed = allocations_left == 0;
        allocations_left = 0;
        if (failed)
            assert_int_equal(status, CLPRUNE_OUT_OF_HOST_MEMORY);
        else
            TEST_OK(status);
        const clprune_plan *plan = test_new_plan(dry);
        const entries all = entries_of(plan);
        const uint64_t commands = clprune_plan_sizes(plan).commands;
        for (size_t i = 0; i < all.count; i++)
            for (size_t k = 0; k < all.entry[i].spans_count; k++)
                assert_true(all.entry[i].spans[k].last < commands);
        if (!failed)
            break;
    }
}

int main(void)
{
    static const uint32_t seeds[] = {1, 2, 3, 4};
    test_list list = {0};
    test_add(&list, programs, NULL, "programs are counted");
    test_add(&list, built_before, NULL, "programs are built with the plan");
    test_add(&list, lives, NULL, "lives by hand");
    for (size_t i = 0; i < 4; i++)
        test_add(&list, random_lives, &seeds[i], "random lives %u", (unsigned)seeds[i]);
    test_add(&list, half_noted, NULL, "a command that is half noted");
    test_add(&list, fresh, NULL, "new buffers are NaN on request");
    test_add(&list, poison, NULL, "forgotten is NaN on request");
    test_add(&list, ignored_options, NULL, "options that a dry context ignores");
    test_add(&list, dry_budget, NULL, "the budget of a dry context");
    test_add(&list, given_once, NULL, "a place is given once");
    test_add(&list, dry_events, NULL, "dry commands have no event");
    test_add(&list, refusals, NULL, "what is refused");
    return test_run_on_devices("plan", &list);
}
