/* Programs that run in the arena of a plan: their bits, their bytes, and which buffers have a
 * place. */
#include "support/test.h"
#include "support/test_plan.h"

/* An allocator that returns parts of one buffer, and uses none twice. */
enum { POOL = 8 << 20 };
static cl_mem pool;
static size_t pooled;

static cl_mem pool_allocate(void *user, cl_context cl, size_t bytes, int32_t *error)
{
    (void)user;
    (void)cl;
    const cl_buffer_region region = {pooled, bytes};
    pooled += (bytes + 4095) / 4096 * 4096;
    return clCreateSubBuffer(pool, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, error);
}

static void pool_release(void *user, cl_mem buffer)
{
    (void)user;
    TEST_CL(clReleaseMemObject(buffer));
}

static clprune_context *open_pool(void)
{
    cl_int code;
    const clprune_context_options options = {.kernels = clprune_context_kernels(test_context()),
        .allocator = {pool_allocate, pool_release, NULL}};
    pool = test_own(
        clCreateBuffer(clprune_context_cl(test_context()), CL_MEM_READ_WRITE, POOL, NULL, &code));
    TEST_CL(code);
    pooled = 4096;
    return test_open_on(clprune_context_queue(test_context()), &options);
}

/* A program: a chain of linear layers with pruned inputs and GELU between them, there and back. */
enum { LAYERS = 4, ROWS = 24, COLS = 48, BATCH = 3 };

static clprune_saved *store(
    clprune_context *context, const char *name, size_t number, clprune_keep keep)
{
    clprune_saved *saved = NULL;
    TEST_OK(clprune_saved_create(
        context, test_text("%s.%zu", name, number), &keep, BATCH, ROWS, COLS, &saved));
    return test_own_saved(context, saved);
}

typedef struct chain {
    clprune_context *context;
    clprune_linear *layer;
    clprune_saved *kept[LAYERS], *h[LAYERS];
    clprune_mat x, w, b, g, dy, dx, dw[LAYERS], db;
} chain;

static chain chain_make(clprune_context *context, bool plan)
{
    chain c = {.context = context};
    const clprune_keep pruned = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f};
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    c.layer =
        test_new_linear(context, (clprune_linear_desc){.in = COLS, .out = COLS, .keep = pruned});
    c.x = create(context, "x", BATCH * ROWS, COLS);
    c.w = create(context, "w", COLS, COLS);
    c.b = create(context, "b", 1, COLS);
    for (size_t i = 0; i < LAYERS; i++)
        c.dw[i] = create(context, "dw", COLS, COLS);
    c.db = create(context, "db", 1, COLS);
    if (plan)
        TEST_OK(clprune_plan_begin(context));
    for (size_t i = 0; i < LAYERS; i++) {
        c.kept[i] = store(context, "kept", i, pruned);
        c.h[i] = store(context, "h", i, dense);
    }
    c.g = create(context, "g", BATCH * ROWS, COLS);
    c.dy = create(context, "dy", BATCH * ROWS, COLS);
    c.dx = create(context, "dx", BATCH * ROWS, COLS);
    return c;
}

static void chain_step(const chain *c, size_t batch)
{
    clprune_context *context = c->context;
    clprune_mat in = clprune_mat_rows(c->x, 0, batch * ROWS);
    const clprune_mat g = clprune_mat_rows(c->g, 0, batch * ROWS);
    const clprune_mat dy = clprune_mat_rows(c->dy, 0, batch * ROWS);
    const clprune_mat dx = clprune_mat_rows(c->dx, 0, batch * ROWS);
    for (size_t i = 0; i < LAYERS; i++) {
        const clprune_mat h = clprune_saved_dense(c->h[i], 0, batch);
        TEST_OK(clprune_linear_forward(c->layer, batch, in, c->w, c->b, h, c->kept[i], NULL));
        TEST_OK(clprune_gelu_forward(context, h, CLPRUNE_NO_MAT, g, NULL));
        in = g;
        TEST_OK(clprune_buffer_forget(context, c->dy.buffer)); /* dead since the last step */
    }
    TEST_OK(clprune_mat_copy(context, g, dy, NULL));
    TEST_OK(clprune_buffer_forget(context, c->g.buffer));
    for (size_t i = LAYERS; i-- > 0;) {
        TEST_OK(clprune_gelu_backward(
            context, 0, clprune_saved_dense(c->h[i], 0, batch), dy, dy, CLPRUNE_NO_MAT, NULL));
        TEST_OK(clprune_linear_backward(c->layer, batch, c->kept[i], dy, c->w,
            &(clprune_grads){.dx = dx, .dw = c->dw[i], .db = c->db}, NULL));
        TEST_OK(clprune_mat_copy(context, dx, dy, NULL));
        TEST_OK(clprune_buffer_forget(context, c->dx.buffer));
    }
    TEST_OK(clprune_plan_end_step(context));
}

static void chain_input(const chain *c)
{
    static float x[BATCH * ROWS * COLS], w[COLS * COLS], b[COLS];
    test_fill_normal(1, COUNT_OF(x), x);
    test_fill_normal(2, COUNT_OF(w), w);
    test_fill_normal(3, COUNT_OF(b), b);
    TEST_OK(clprune_mat_write(c->context, c->x, x));
    TEST_OK(clprune_mat_write(c->context, c->w, w));
    TEST_OK(clprune_mat_write(c->context, c->b, b));
}

static void chain_result(const chain *c, float *dw)
{
    for (size_t i = 0; i < LAYERS; i++)
        TEST_OK(clprune_mat_read(c->context, c->dw[i], dw + i * COLS * COLS));
}

/* The planned program gives the same bits, in the bytes that were planned, with smaller batches in
 * between, with what is forgotten poisoned, in sub-buffers of an allocator, and without an arena.
 */
static void arena(void **state)
{
    enum { RESULTS = LAYERS * COLS * COLS };
    static float expected[RESULTS], got[RESULTS];
    const bool in_slabs = *state != NULL;
    clprune_plan *plan = NULL;
    clprune_plan_totals totals = {0};
    uint64_t kept = 0;
    chain c;
    const size_t batches[] = {BATCH, 1, BATCH, 2, BATCH};
    for (int slabs = 0; slabs <= in_slabs; slabs++) {
        largest = slabs ? totals.scratch_bytes + 20000 : 0;
        clprune_context *dry = open_dry();
        c = chain_make(dry, true);
        for (size_t batch = BATCH; batch > 0; batch--)
            chain_step(&c, batch);
        plan = test_new_plan(dry);
        check_places(plan);
        totals = clprune_plan_sizes(plan);
        assert_true(totals.arena_bytes < totals.buffer_bytes);
        assert_true(totals.scratch_bytes > 0);
        assert_int_equal(slab_of(totals.arena_bytes - 1) > 0, slabs);
        kept = test_live(dry, CLPRUNE_MEMORY_ACTIVATIONS);
        test_end(dry);
    }

    clprune_context *plain = open_real();
    c = chain_make(plain, false);
    chain_input(&c);
    for (size_t i = 0; i < 5; i++)
        chain_step(&c, batches[i]);
    chain_result(&c, expected);
    assert_int_equal(clprune_memory_query(plain, CLPRUNE_MEMORY_ARENA).count, 0);
    test_end(plain);

    static const char *const words[] = {"arena=on", "forget=poison", "forget=keep", "arena=off"};
    for (int run = 0; run < 4; run++) {
        const bool apart = run == 1 || run == 3; /* nothing shares a place then */
        test_debug(words[run]);
        clprune_context *planned = run == 2 ? open_pool() : open_real();
        TEST_OK(clprune_context_use_plan(planned, plan));
        c = chain_make(planned, false);
        chain_input(&c);
        const uint64_t bytes = apart ? 0 : totals.arena_bytes;
        assert_int_equal(test_live(planned, CLPRUNE_MEMORY_ARENA), bytes);
        assert_int_equal(clprune_memory_query(planned, CLPRUNE_MEMORY_ARENA).count,
            apart ? 0 : 1 + slab_of(totals.arena_bytes - 1));
        assert_int_equal(test_live(planned, CLPRUNE_MEMORY_ACTIVATIONS), kept);
        for (size_t i = 0; i < 5; i++)
            chain_step(&c, batches[i]);
        chain_result(&c, got);
        assert_memory_equal(got, expected, sizeof expected);
        /* CLBlast's temporary is the one thing that cannot be planned. */
        if (clprune_context_kernels(planned) == CLPRUNE_KERNELS_VECTOR && !apart)
            assert_int_equal(clprune_memory_query(planned, CLPRUNE_MEMORY_TOTAL).peak,
                totals.arena_bytes + totals.other_bytes);
        for (size_t i = 0; i < LAYERS; i++) {
            test_end(c.kept[i]);
            test_end(c.h[i]);
        }
        assert_int_equal(test_live(planned, CLPRUNE_MEMORY_ACTIVATIONS), 0);
        assert_int_equal(test_live(planned, CLPRUNE_MEMORY_ARENA), bytes);
        test_end(planned);
    }
    largest = 0;
}

/* GELU backward from a pruned store: the first command restores the store, the second one writes
 * dx, which so may take the store's place. */
typedef struct reuse {
    clprune_context *context;
    clprune_saved *kept;
    clprune_mat x, out, dy, dx;
} reuse;

static reuse reuse_make(clprune_context *context, bool plan)
{
    reuse r = {.context = context};
    const clprune_keep pruned = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.25f};
    r.x = create(context, "x", BATCH * ROWS, COLS);
    r.out = create(context, "out", BATCH * ROWS, COLS);
    if (plan)
        TEST_OK(clprune_plan_begin(context));
    r.kept = store(context, "kept", 0, pruned);
    r.dy = create(context, "dy", BATCH * ROWS, COLS);
    r.dx = create(context, "dx", BATCH * ROWS, COLS);
    return r;
}

static void reuse_step(const reuse *r)
{
    clprune_context *context = r->context;
    TEST_OK(clprune_saved_store(r->kept, 0, BATCH, r->x, NULL));
    TEST_OK(clprune_mat_fill(context, 1, r->dy, NULL));
    TEST_OK(clprune_activation_backward(context, CLPRUNE_ACTIVATION_GELU, 0, BATCH, r->kept, r->dy,
        &(clprune_grads){.dx = r->dx}, NULL));
    TEST_OK(clprune_mat_copy(context, r->dx, r->out, NULL));
    TEST_OK(clprune_plan_end_step(context));
}

/* Operands of one call may share a place, as long as they never live at once. */
static void shared_place(NO_ROW)
{
    enum { RESULTS = BATCH * ROWS * COLS };
    static float x[RESULTS], out[3][RESULTS];
    reuse r = reuse_make(open_dry(), true);
    reuse_step(&r);
    clprune_plan *plan = test_new_plan(r.context);
    uint64_t begin[2] = {0}, end[2] = {0}; /* of kept and dx */
    const entries all = entries_of(plan);
    for (size_t i = 0; i < all.count; i++)
        for (int k = 0; k < 2; k++)
            if (strcmp(all.entry[i].name, k == 0 ? "kept.0" : "dx") == 0) {
                begin[k] = all.entry[i].offset;
                end[k] = begin[k] + all.entry[i].bytes;
            }
    assert_true(begin[0] < end[1] && begin[1] < end[0]);
    test_fill_normal(4, RESULTS, x);
    for (int run = 0; run < 3; run++) {
        clprune_context *context = run == 2 ? open_pool() : open_real();
        if (run > 0)
            TEST_OK(clprune_context_use_plan(context, plan));
        r = reuse_make(context, false);
        TEST_OK(clprune_mat_write(context, r.x, x));
        reuse_step(&r);
        TEST_OK(clprune_mat_read(context, r.out, out[run]));
        assert_memory_equal(out[0], out[run], sizeof out[0]);
    }
}

/* The device's largest buffer limits slabs, planned buffers and scratch. */
static void small_slabs(NO_ROW)
{
    largest = 8000; /* slabs of 7168 bytes */
    clprune_context *dry = open_dry();
    const clprune_mat t = create(dry, "t", 4000, 1024), dy = create(dry, "dy", 4000, 1024),
                      ls = create(dry, "ls", 1, 1024), dls = create(dry, "dls", 1, 1024);
    TEST_OK(clprune_plan_begin(dry));
    (void)create(dry, "a", 64, 16);
    (void)create(dry, "b", 64, 16);
    (void)create(dry, "large", 1792 + 1, 1);
    clprune_plan *plan = test_new_plan(dry);
    check_places(plan);
    assert_int_equal(entries_of(plan).count, 2);
    assert_int_equal(entries_of(plan).entry[1].offset, 7168);
    assert_int_equal(clprune_plan_sizes(plan).arena_bytes, 7168 + 4096);
    assert_int_equal(clprune_plan_sizes(plan).other_bytes, 2 * 4000 * 4096 + 2 * 4096 + 7172);
    for (size_t i = 0; i < 62; i++) /* each in a slab of its own */
        (void)create(dry, "c", 1792, 1);
    plan = test_new_plan(dry);
    assert_int_equal(clprune_plan_sizes(plan).arena_bytes, 63 * 7168 + 4096);
    TEST_OK(clprune_context_use_plan(open_real(), plan));
    (void)create(dry, "d", 256, 3); /* these two fill what a and b leave: 64 whole slabs */
    (void)create(dry, "d", 256, 3);
    plan = test_new_plan(dry);
    assert_int_equal(clprune_plan_sizes(plan).arena_bytes, 64 * 7168);
    TEST_OK(clprune_context_use_plan(open_real(), plan));
    (void)create(dry, "e", 1, 1);
    plan = test_new_plan(dry);
    clprune_context *real = open_real();
    TEST_FAILS_IN(real, clprune_context_use_plan(real, plan), CLPRUNE_UNSUPPORTED, "at most 7168");
    assert_int_equal(test_live(real, CLPRUNE_MEMORY_TOTAL), 0);
    TEST_OK(clprune_layerscale_backward(
        dry, 0, t, ls, dy, t, &(clprune_layerscale_grads){.dls = dls}, NULL));
    TEST_FAILS_IN(dry, clprune_plan_create(dry, &plan), CLPRUNE_OUT_OF_DEVICE_MEMORY,
        "largest buffer has 8000 bytes");
    assert_null(plan);
    largest = 0;
}

/* The scratch of a larger operation than the planned one, before the plan or after, does not stay
 * beside the arena. If it is refused, the planned one still runs. */
static void larger_scratch(NO_ROW)
{
    enum { LARGE = 20000, SMALL = LARGE / 8, DRY = 0, LIMITED = 2 };
    static const size_t all[] = {LARGE, SMALL, LARGE, SMALL};
    clprune_plan *plan = NULL;
    clprune_plan_totals totals = {0};
    for (int run = DRY; run <= LIMITED; run++) {
        const clprune_context_options options = {.kernels = clprune_context_kernels(test_context()),
            .mem_limit = run == LIMITED ? totals.arena_bytes + totals.other_bytes : 0};
        clprune_context *context = run == DRY ? open_dry() : test_open(options);
        const clprune_mat t = create(context, "t", LARGE, 16),
                          dy = create(context, "dy", LARGE, 16), ls = create(context, "ls", 1, 16),
                          dls = create(context, "dls", 1, 16);
        if (run == DRY)
            TEST_OK(clprune_plan_begin(context));
        const size_t first = run == DRY || run == LIMITED, end = run == DRY ? 2 : 4;
        for (size_t i = first; i < end; i++) {
            const size_t rows = all[i];
            if (run != DRY && i == 1)
                TEST_OK(clprune_context_use_plan(context, plan));
            assert_int_equal(clprune_layerscale_backward(context, 0, clprune_mat_rows(t, 0, rows),
                                 ls, clprune_mat_rows(dy, 0, rows), clprune_mat_rows(t, 0, rows),
                                 &(clprune_layerscale_grads){.dls = dls}, NULL),
                run == LIMITED && rows == LARGE ? CLPRUNE_OUT_OF_DEVICE_MEMORY : CLPRUNE_SUCCESS);
            if (run != DRY && i > 0)
                assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL),
                    totals.arena_bytes + totals.other_bytes);
        }
        if (run == DRY) {
            plan = test_new_plan(context);
            totals = clprune_plan_sizes(plan);
            assert_true(totals.scratch_bytes > 0);
        }
        test_end(context);
    }
}

/* Matrices of one buffer have one place, also if a launch uses only one of them. */
static void shared_buffer(NO_ROW)
{
    const char *const names[] = {"a", "b"};
    clprune_plan *plan = NULL;
    clprune_plan_totals totals = {0};
    for (int real = 0; real < 2; real++) {
        clprune_context *context = real ? open_real() : open_dry();
        clprune_mat mats[] = {{.rows = 64, .cols = 16}, {.rows = 32, .cols = 16}};
        TEST_OK(real ? clprune_context_use_plan(context, plan) : clprune_plan_begin(context));
        TEST_OK(clprune_mats_create(context, CLPRUNE_MEMORY_WORKSPACE, 2, names, mats));
        const clprune_mat c = create(context, "c", 96, 16);
        TEST_OK(clprune_mat_fill(context, 1.0f, mats[1], NULL));
        TEST_OK(clprune_mat_fill(context, 2.0f, c, NULL));
        TEST_OK(clprune_plan_end_step(context));
        if (!real) {
            plan = test_new_plan(context);
            totals = clprune_plan_sizes(plan);
            const entries all = entries_of(plan);
            assert_int_equal(all.count, 2);
            assert_string_equal(all.entry[0].name, "a");
            assert_int_equal(all.entry[0].bytes, 96 * 64);
            assert_int_equal(totals.arena_bytes, 96 * 64);
            assert_int_equal(totals.buffer_bytes, 2 * 96 * 64);
            assert_int_equal(totals.other_bytes, 0);
        }
        assert_int_equal(test_live(context, CLPRUNE_MEMORY_WORKSPACE), 2 * 96 * 64);
        if (real) {
            assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), totals.arena_bytes);
            float row[16]; /* c lies over b */
            TEST_OK(clprune_mat_read(context, clprune_mat_rows(mats[1], 0, 1), row));
            assert_true(row[0] == 2.0f);
        }
        clprune_buffer_release(context, mats[0].buffer);
        clprune_buffer_release(context, c.buffer);
        assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), real ? totals.arena_bytes : 0);
    }
}

/* A place is found by category, name and size. Buffers that share these with one that is not
 * planned, because it was created before the plan or is released in a step, have no place. */
static void doubles(NO_ROW)
{
    clprune_plan *plan = NULL;
    for (int real = 0; real < 2; real++) {
        clprune_context *context = real ? open_real() : open_dry();
        if (real)
            TEST_OK(clprune_context_use_plan(context, plan));
        const clprune_mat early = create(context, "late", 64, 16),
                          out = create(context, "out", 64, 16);
        float row[16];
        clprune_buffer_release(context, create(context, "soon", 64, 16).buffer);
        TEST_OK(clprune_mat_fill(context, 7.0f, early, NULL));
        if (!real)
            TEST_OK(clprune_plan_begin(context));
        const clprune_mat x = create(context, "x", 64, 16);
        TEST_OK(clprune_mat_fill(context, 1.0f, x, NULL));
        for (int again = 0; again < 2; again++) {
            const clprune_mat released = create(context, "t", 64, 16);
            TEST_OK(clprune_mat_fill(context, 2.0f, released, NULL));
            clprune_buffer_release(context, released.buffer);
        }
        TEST_OK(clprune_mat_copy(context, x, out, NULL));
        const clprune_mat t = create(context, "t", 64, 16), late = create(context, "late", 64, 16),
                          soon = create(context, "soon", 64, 16);
        TEST_OK(clprune_mat_fill(context, 5.0f, soon, NULL));
        TEST_OK(clprune_mat_fill(context, 3.0f, t, NULL));
        TEST_OK(clprune_mat_fill(context, 4.0f, late, NULL));
        TEST_OK(clprune_plan_end_step(context));
        if (real) {
            TEST_OK(clprune_mat_read(context, clprune_mat_rows(out, 0, 1), row));
            assert_true(row[0] == 1.0f);
            TEST_OK(clprune_mat_read(context, clprune_mat_rows(early, 0, 1), row));
            assert_true(row[0] == 7.0f);
        } else {
            plan = test_new_plan(context);
            assert_int_equal(entries_of(plan).count, 1);
            assert_int_equal(clprune_plan_sizes(plan).other_bytes, 5 * 4096);
            check_places(plan);
        }
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, arena, NULL, "a planned program gives the same bits");
    test_add(&list, arena, &list, "a planned program in small slabs gives the same bits");
    test_add(&list, small_slabs, NULL, "small slabs");
    test_add(&list, shared_place, NULL, "operands of one call in one place");
    test_add(&list, shared_buffer, NULL, "matrices of one buffer");
    test_add(&list, larger_scratch, NULL, "scratch of larger operations");
    test_add(&list, doubles, NULL, "buffers with one name and size");
    return test_run_on_devices("plan-arena", &list);
}
