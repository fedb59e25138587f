/* Dry contexts and memory plans: lives, places, arenas. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "support/test_device.h"
#include "support/test_folder.h"
#include "support/test_rng.h"

enum { MOST = 64 };

static int allocations_left; /* that succeed and one that does not; 0: all do */

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_realloc(void *memory, size_t size)
{
    if (allocations_left > 0 && --allocations_left == 0)
        return NULL;
    return __real_realloc(memory, size);
}

static void good(clprune_context *context, clprune_status status)
{
    if (status != CLPRUNE_SUCCESS)
        fail_msg("%s", clprune_last_error(context));
}

static uint64_t largest; /* max_allocation of dry contexts; 0: the device's */

static clprune_context *open_dry(void)
{
    clprune_device_info info = clprune_context_device_info(test_context());
    if (largest != 0)
        info.max_allocation = largest;
    const clprune_context_options options = {.kernels = clprune_context_kernels(test_context())};
    clprune_context *dry = NULL;
    good(NULL, clprune_context_create_dry(&info, &options, &dry));
    assert_null(clprune_context_queue(dry));
    assert_int_equal(clprune_context_kernels(dry), clprune_context_kernels(test_context()));
    return dry;
}

static clprune_context *open_real(void)
{
    clprune_context *context = NULL;
    const clprune_context_options options = {.kernels = clprune_context_kernels(test_context())};
    good(NULL, test_create(options, &context));
    return context;
}

/* An allocator that returns parts of one buffer, *user, and uses none twice. */
enum { POOL = 8 << 20 };
static size_t pooled;

static cl_mem pool_allocate(void *user, cl_context cl, size_t bytes, int32_t *error)
{
    (void)cl;
    const cl_buffer_region region = {pooled, bytes};
    pooled += (bytes + 4095) / 4096 * 4096;
    return clCreateSubBuffer(*(cl_mem *)user, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, error);
}

static void pool_release(void *user, cl_mem buffer)
{
    (void)user;
    assert_int_equal(clReleaseMemObject(buffer), CL_SUCCESS);
}

static clprune_context *open_pool(cl_mem *pool)
{
    clprune_context *context = NULL;
    cl_int code;
    const clprune_context_options options = {.kernels = clprune_context_kernels(test_context()),
        .allocator = {pool_allocate, pool_release, pool}};
    *pool =
        clCreateBuffer(clprune_context_cl(test_context()), CL_MEM_READ_WRITE, POOL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    pooled = 4096;
    good(NULL, clprune_context_create(clprune_context_queue(test_context()), &options, &context));
    return context;
}

static clprune_mat create(clprune_context *context, const char *name, size_t rows, size_t cols)
{
    clprune_mat mat;
    good(context, clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, name, rows, cols, &mat));
    return mat;
}

/* Copies of a plan's entries. */
typedef struct entries {
    clprune_plan_entry entry[MOST];
    size_t count;
} entries;

static void collect(void *user, const clprune_plan_entry *entry)
{
    entries *all = user;
    assert_true(all->count < MOST);
    all->entry[all->count++] = *entry;
}

static entries entries_of(const clprune_plan *plan)
{
    entries all = {.count = 0};
    clprune_plan_visit(plan, collect, &all);
    return all;
}

static bool meet(const clprune_plan_entry *a, const clprune_plan_entry *b)
{
    for (size_t i = 0; i < a->spans_count; i++)
        for (size_t k = 0; k < b->spans_count; k++)
            if (a->spans[i].first <= b->spans[k].last && b->spans[k].first <= a->spans[i].last)
                return true;
    return a->spans_count == 0 || b->spans_count == 0;
}

static uint64_t slab_of(uint64_t offset)
{
    return largest == 0 ? 0 : offset / (largest - largest % CLPRUNE__ARENA_ALIGN);
}

/* Who lives at once lies apart, above what is borrowed, inside the arena, and in one slab. */
static void check_places(const clprune_plan *plan)
{
    const entries all = entries_of(plan);
    const clprune_plan_totals totals = clprune_plan_sizes(plan);
    uint64_t most = 0;
    for (size_t i = 0; i < all.count; i++) {
        const clprune_plan_entry *a = &all.entry[i];
        assert_int_equal(a->offset % CLPRUNE__ARENA_ALIGN, 0);
        assert_true(a->offset + a->bytes <= totals.arena_bytes);
        assert_int_equal(slab_of(a->offset), slab_of(a->offset + a->bytes - 1));
        for (size_t k = 0; k < i; k++) {
            const clprune_plan_entry *b = &all.entry[k];
            if (meet(a, b) && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                fail_msg("%s and %s live at once in one place", a->name, b->name);
        }
        for (size_t s = 0; s < a->spans_count; s++)
            for (uint64_t c = a->spans[s].first; c <= a->spans[s].last; c++)
                assert_true(a->offset >= clprune_plan_scratch(plan, c));
    }
    for (uint64_t c = 0; c < totals.commands; c++) {
        uint64_t live = clprune_plan_scratch(plan, c);
        for (size_t i = 0; i < all.count; i++)
            for (size_t s = 0; s < all.entry[i].spans_count; s++)
                if (all.entry[i].spans[s].first <= c && c <= all.entry[i].spans[s].last)
                    live += all.entry[i].bytes;
        most = live > most ? live : most;
    }
    assert_int_equal(totals.live_bytes, most);
    assert_true(totals.arena_bytes >= totals.live_bytes);
}

static void assert_span(clprune_plan_span span, uint64_t first, uint64_t last)
{
    assert_int_equal(span.first, first);
    assert_int_equal(span.last, last);
}

/* A dry context counts each program that its commands need once: as many as are built or loaded
 * where the commands run. */
static void programs(void **state)
{
    (void)state;
    clprune_context *contexts[] = {open_dry(), open_real()};
    uint64_t counts[2];
    for (size_t i = 0; i < 2; i++) {
        clprune_context *context = contexts[i];
        const clprune_mat a = create(context, "a", 40, 24), b = create(context, "b", 40, 24);
        clprune_cache_stats stats[2];
        for (size_t k = 0; k < 2; k++) {
            good(context, clprune_mat_fill(context, 1.0f, a, NULL));
            good(context, clprune_mat_copy(context, a, b, NULL));
            good(
                context, clprune_relu_forward(context, b, CLPRUNE_NO_MAT, b, CLPRUNE_NO_MAT, NULL));
            good(
                context, clprune_relu_forward(context, a, CLPRUNE_NO_MAT, b, CLPRUNE_NO_MAT, NULL));
            stats[k] = clprune_context_cache_stats(context);
        }
        assert_int_equal(stats[0].builds, stats[1].builds);
        counts[i] = stats[0].builds + stats[0].disk_hits;
        assert_true(i == 1 || stats[1].disk_hits + stats[1].rejected == 0);
        clprune_buffer_release(context, a.buffer);
        clprune_buffer_release(context, b.buffer);
        clprune_context_destroy(context);
    }
    assert_true(counts[0] > 1);
    assert_int_equal(counts[0], counts[1]);
}

/* By hand: a dies after command 1, c is made in its place, and a lives again. */
static void lives(void **state)
{
    (void)state;
    clprune_context *dry = open_dry();
    clprune_plan *plan;
    const clprune_mat early = create(dry, "early", 100, 10);
    good(dry, clprune_mat_fill(dry, 0.0f, early, NULL)); /* command 0 */
    good(dry, clprune_plan_begin(dry));
    const clprune_mat a = create(dry, "a", 100, 10), b = create(dry, "b", 50, 10),
                      c = create(dry, "c", 100, 10), idle = create(dry, "idle", 1, 1);
    good(dry, clprune_mat_fill(dry, 1.0f, a, NULL));                       /* 1 */
    good(dry, clprune_mat_copy(dry, clprune_mat_rows(a, 0, 50), b, NULL)); /* 2 */
    good(dry, clprune_buffer_forget(dry, a.buffer));
    good(dry, clprune_mat_fill(dry, 2.0f, c, NULL));                       /* 3 */
    good(dry, clprune_mat_copy(dry, b, clprune_mat_rows(c, 0, 50), NULL)); /* 4 */
    good(dry, clprune_plan_end_step(dry));
    good(dry, clprune_mat_fill(dry, 3.0f, clprune_mat_rows(a, 3, 1), NULL)); /* 5 */
    good(dry, clprune_mat_fill(dry, 3.0f, clprune_mat_rows(a, 0, 0), NULL)); /* nothing */
    assert_int_equal(clprune_context_commands(dry), 6);
    (void)idle;

    good(dry, clprune_plan_create(dry, &plan));
    clprune_buffer_release(dry, early.buffer);
    clprune_context_destroy(dry); /* the plan stays */
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
    clprune_plan_destroy(plan);
}

/* Random programs of many small steps, with odd seeds in small slabs. */
static void random_lives(void **state)
{
    const uint32_t seed = *(const uint32_t *)*state;
    largest = seed % 2 == 1 ? 50000 : 0;
    test_rng rng = {seed};
    clprune_context *dry = open_dry();
    clprune_mat mats[40];
    clprune_plan *plan;
    const clprune_mat ls = create(dry, "ls", 1, 4), dls = create(dry, "dls", 1, 4),
                      big = create(dry, "big", 2000, 4);
    clprune_mat dy;
    good(dry, clprune_plan_begin(dry));
    for (size_t i = 0; i < 40; i++)
        mats[i] = create(dry, "m", 1 + test_rng_below(&rng, 2000), 4);
    for (size_t k = 0; k < 300; k++) {
        const clprune_mat mat = mats[test_rng_below(&rng, 40)];
        switch (test_rng_below(&rng, 8)) {
        case 0:
            good(dry, clprune_buffer_forget(dry, mat.buffer));
            break;
        case 1: /* borrows for its sums */
            dy = clprune_mat_rows(big, 0, mat.rows);
            good(dry, clprune_layerscale_backward(
                          dry, 0, mat, ls, dy, mat, dls, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, NULL));
            break;
        case 2:
        case 3: { /* touches two */
            const clprune_mat to = mats[test_rng_below(&rng, 40)];
            const size_t rows = mat.rows < to.rows ? mat.rows : to.rows;
            if (mat.buffer != to.buffer)
                good(dry, clprune_mat_copy(dry, clprune_mat_rows(mat, 0, rows),
                              clprune_mat_rows(to, 0, rows), NULL));
            good(dry, clprune_buffer_forget(dry, mat.buffer));
            break;
        }
        default:
            good(dry, clprune_mat_fill(dry, 0.0f, mat, NULL));
        }
        if (k % 100 == 99)
            good(dry, clprune_plan_end_step(dry));
    }
    good(dry, clprune_plan_create(dry, &plan));
    check_places(plan);
    assert_true(clprune_plan_sizes(plan).scratch_bytes > 0);
    clprune_plan_destroy(plan);
    clprune_buffer_release(dry, ls.buffer);
    clprune_buffer_release(dry, dls.buffer);
    clprune_buffer_release(dry, big.buffer);
    for (size_t i = 0; i < 40; i++)
        clprune_buffer_release(dry, mats[i].buffer);
    clprune_context_destroy(dry);
    largest = 0;
}

/* A program: a chain of linear layers with pruned inputs and GELU between them, there and back. */
enum { LAYERS = 4, ROWS = 24, COLS = 48, BATCH = 3 };

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
    const clprune_linear_desc desc = {.in = COLS, .out = COLS, .keep = pruned};
    good(context, clprune_linear_create(context, &desc, &c.layer));
    c.x = create(context, "x", BATCH * ROWS, COLS);
    c.w = create(context, "w", COLS, COLS);
    c.b = create(context, "b", 1, COLS);
    for (size_t i = 0; i < LAYERS; i++)
        c.dw[i] = create(context, "dw", COLS, COLS);
    c.db = create(context, "db", 1, COLS);
    if (plan)
        good(context, clprune_plan_begin(context));
    for (size_t i = 0; i < LAYERS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "kept.%zu", i);
        good(context, clprune_saved_create(context, name, &pruned, BATCH, ROWS, COLS, &c.kept[i]));
        (void)snprintf(name, sizeof name, "h.%zu", i);
        good(context, clprune_saved_create(context, name, &dense, BATCH, ROWS, COLS, &c.h[i]));
    }
    c.g = create(context, "g", BATCH * ROWS, COLS);
    c.dy = create(context, "dy", BATCH * ROWS, COLS);
    c.dx = create(context, "dx", BATCH * ROWS, COLS);
    return c;
}

static void chain_free(chain *c)
{
    const clprune_mat mats[] = {c->x, c->w, c->b, c->g, c->dy, c->dx, c->db};
    for (size_t i = 0; i < LAYERS; i++) {
        clprune_saved_destroy(c->kept[i]);
        clprune_saved_destroy(c->h[i]);
        clprune_buffer_release(c->context, c->dw[i].buffer);
    }
    for (size_t i = 0; i < sizeof mats / sizeof *mats; i++)
        clprune_buffer_release(c->context, mats[i].buffer);
    clprune_linear_destroy(c->layer);
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
        good(context, clprune_linear_forward(c->layer, batch, in, c->w, c->b, h, c->kept[i], NULL));
        good(context, clprune_gelu_forward(context, h, CLPRUNE_NO_MAT, g, NULL));
        in = g;
        good(context, clprune_buffer_forget(context, c->dy.buffer)); /* dead since the last step */
    }
    good(context, clprune_mat_copy(context, g, dy, NULL));
    good(context, clprune_buffer_forget(context, c->g.buffer));
    for (size_t i = LAYERS; i-- > 0;) {
        good(context, clprune_gelu_backward(context, 0, clprune_saved_dense(c->h[i], 0, batch), dy,
                          dy, CLPRUNE_NO_MAT, NULL));
        good(context, clprune_linear_backward(
                          c->layer, batch, 0.0f, c->kept[i], dy, c->w, dx, c->dw[i], c->db, NULL));
        good(context, clprune_mat_copy(context, dx, dy, NULL));
        good(context, clprune_buffer_forget(context, c->dx.buffer));
    }
    good(context, clprune_plan_end_step(context));
}

static void chain_input(const chain *c)
{
    static float x[BATCH * ROWS * COLS], w[COLS * COLS], b[COLS];
    test_fill_normal(1, sizeof x / sizeof *x, x);
    test_fill_normal(2, sizeof w / sizeof *w, w);
    test_fill_normal(3, sizeof b / sizeof *b, b);
    good(c->context, clprune_mat_write(c->context, c->x, x));
    good(c->context, clprune_mat_write(c->context, c->w, w));
    good(c->context, clprune_mat_write(c->context, c->b, b));
}

static void chain_result(const chain *c, float *dw)
{
    for (size_t i = 0; i < LAYERS; i++)
        good(c->context, clprune_mat_read(c->context, c->dw[i], dw + i * COLS * COLS));
}

static uint64_t live(const clprune_context *context, clprune_memory_category category)
{
    return clprune_memory_query(context, category).live;
}

/* The planned program gives the same bits, in the bytes that were planned, with smaller batches in
 * between, with what is forgotten poisoned, and in sub-buffers of an allocator. */
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
        clprune_plan_destroy(plan);
        clprune_context *dry = open_dry();
        c = chain_make(dry, true);
        for (size_t batch = BATCH; batch > 0; batch--)
            chain_step(&c, batch);
        good(dry, clprune_plan_create(dry, &plan));
        check_places(plan);
        totals = clprune_plan_sizes(plan);
        assert_true(totals.arena_bytes < totals.buffer_bytes);
        assert_true(totals.scratch_bytes > 0);
        assert_int_equal(slab_of(totals.arena_bytes - 1) > 0, slabs);
        kept = live(dry, CLPRUNE_MEMORY_ACTIVATIONS);
        chain_free(&c);
        clprune_context_destroy(dry);
    }

    clprune_context *plain = open_real();
    c = chain_make(plain, false);
    chain_input(&c);
    for (size_t i = 0; i < 5; i++)
        chain_step(&c, batches[i]);
    chain_result(&c, expected);
    assert_int_equal(clprune_memory_query(plain, CLPRUNE_MEMORY_ARENA).count, 0);
    chain_free(&c);
    clprune_context_destroy(plain);

    for (int run = 0; run < 3; run++) {
        const bool poison = run == 1;
        cl_mem pool = NULL;
        test_debug(poison ? "forget=poison" : "forget=keep");
        clprune_context *planned = run == 2 ? open_pool(&pool) : open_real();
        test_debug(NULL);
        good(planned, clprune_context_use_plan(planned, plan));
        c = chain_make(planned, false);
        chain_input(&c);
        const uint64_t bytes = poison ? 0 : totals.arena_bytes; /* nothing shares a place then */
        assert_int_equal(live(planned, CLPRUNE_MEMORY_ARENA), bytes);
        assert_int_equal(clprune_memory_query(planned, CLPRUNE_MEMORY_ARENA).count,
            poison ? 0 : 1 + slab_of(totals.arena_bytes - 1));
        assert_int_equal(live(planned, CLPRUNE_MEMORY_ACTIVATIONS), kept);
        for (size_t i = 0; i < 5; i++)
            chain_step(&c, batches[i]);
        chain_result(&c, got);
        assert_memory_equal(got, expected, sizeof expected);
        /* CLBlast's temporary is the one thing that cannot be planned. */
        if (clprune_context_kernels(planned) == CLPRUNE_KERNELS_VECTOR && !poison)
            assert_int_equal(clprune_memory_query(planned, CLPRUNE_MEMORY_TOTAL).peak,
                totals.arena_bytes + totals.other_bytes);
        chain_free(&c);
        assert_int_equal(live(planned, CLPRUNE_MEMORY_ACTIVATIONS), 0);
        assert_int_equal(live(planned, CLPRUNE_MEMORY_ARENA), bytes);
        clprune_context_destroy(planned);
        if (pool != NULL)
            assert_int_equal(clReleaseMemObject(pool), CL_SUCCESS);
    }
    clprune_plan_destroy(plan);
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
        good(context, clprune_plan_begin(context));
    good(context, clprune_saved_create(context, "kept", &pruned, BATCH, ROWS, COLS, &r.kept));
    r.dy = create(context, "dy", BATCH * ROWS, COLS);
    r.dx = create(context, "dx", BATCH * ROWS, COLS);
    return r;
}

static void reuse_step(const reuse *r)
{
    clprune_context *context = r->context;
    good(context, clprune_saved_store(r->kept, 0, BATCH, r->x, NULL));
    good(context, clprune_mat_fill(context, 1, r->dy, NULL));
    good(context, clprune_activation_backward(context, CLPRUNE_ACTIVATION_GELU, 0, BATCH, 0,
                      r->kept, r->dy, r->dx, CLPRUNE_NO_MAT, NULL));
    good(context, clprune_mat_copy(context, r->dx, r->out, NULL));
    good(context, clprune_plan_end_step(context));
}

static void reuse_free(reuse *r)
{
    const clprune_mat mats[] = {r->x, r->out, r->dy, r->dx};
    for (size_t i = 0; i < sizeof mats / sizeof *mats; i++)
        clprune_buffer_release(r->context, mats[i].buffer);
    clprune_saved_destroy(r->kept);
    clprune_context_destroy(r->context);
}

/* Operands of one call may share a place, as long as they never live at once. */
static void shared_place(void **state)
{
    (void)state;
    enum { RESULTS = BATCH * ROWS * COLS };
    static float x[RESULTS], out[3][RESULTS];
    clprune_plan *plan;
    reuse r = reuse_make(open_dry(), true);
    reuse_step(&r);
    good(r.context, clprune_plan_create(r.context, &plan));
    uint64_t begin[2] = {0}, end[2] = {0}; /* of kept and dx */
    const entries all = entries_of(plan);
    for (size_t i = 0; i < all.count; i++)
        for (int k = 0; k < 2; k++)
            if (strcmp(all.entry[i].name, k == 0 ? "kept" : "dx") == 0) {
                begin[k] = all.entry[i].offset;
                end[k] = begin[k] + all.entry[i].bytes;
            }
    assert_true(begin[0] < end[1] && begin[1] < end[0]);
    reuse_free(&r);
    test_fill_normal(4, RESULTS, x);
    cl_mem pool;
    for (int run = 0; run < 3; run++) {
        clprune_context *context = run == 2 ? open_pool(&pool) : open_real();
        if (run > 0)
            good(context, clprune_context_use_plan(context, plan));
        r = reuse_make(context, false);
        good(context, clprune_mat_write(context, r.x, x));
        reuse_step(&r);
        good(context, clprune_mat_read(context, r.out, out[run]));
        reuse_free(&r);
        assert_memory_equal(out[0], out[run], sizeof out[0]);
    }
    assert_int_equal(clReleaseMemObject(pool), CL_SUCCESS);
    clprune_plan_destroy(plan);
}

/* The device's largest buffer limits slabs, planned buffers and scratch. */
static void small_slabs(void **state)
{
    (void)state;
    clprune_plan *plan;
    largest = 8000; /* slabs of 7168 bytes */
    clprune_context *dry = open_dry();
    const clprune_mat t = create(dry, "t", 4000, 1024), dy = create(dry, "dy", 4000, 1024),
                      ls = create(dry, "ls", 1, 1024), dls = create(dry, "dls", 1, 1024);
    good(dry, clprune_plan_begin(dry));
    (void)create(dry, "a", 64, 16);
    (void)create(dry, "b", 64, 16);
    (void)create(dry, "large", 1792 + 1, 1);
    good(dry, clprune_plan_create(dry, &plan));
    check_places(plan);
    assert_int_equal(entries_of(plan).count, 2);
    assert_int_equal(entries_of(plan).entry[1].offset, 7168);
    assert_int_equal(clprune_plan_sizes(plan).arena_bytes, 7168 + 4096);
    assert_int_equal(clprune_plan_sizes(plan).other_bytes, 2 * 4000 * 4096 + 2 * 4096 + 7172);
    clprune_plan_destroy(plan);
    for (size_t i = 0; i < 64; i++) /* each in a slab of its own */
        (void)create(dry, "c", 64, 16);
    good(dry, clprune_plan_create(dry, &plan));
    clprune_context *real = open_real();
    assert_int_equal(clprune_context_use_plan(real, plan), CLPRUNE_UNSUPPORTED);
    assert_non_null(strstr(clprune_last_error(real), "at most 7168"));
    assert_int_equal(live(real, CLPRUNE_MEMORY_TOTAL), 0);
    clprune_context_destroy(real);
    clprune_plan_destroy(plan);
    good(dry, clprune_layerscale_backward(
                  dry, 0, t, ls, dy, t, dls, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, NULL));
    assert_int_equal(clprune_plan_create(dry, &plan), CLPRUNE_OUT_OF_DEVICE_MEMORY);
    assert_null(plan);
    assert_non_null(strstr(clprune_last_error(dry), "largest buffer has 8000 bytes"));
    clprune_context_destroy(dry);
    largest = 0;
}

/* The scratch of an earlier, larger operation does not stay beside the arena. */
static void earlier_scratch(void **state)
{
    (void)state;
    enum { LARGE = 20000, SMALL = LARGE / 8 };
    clprune_plan *plan = NULL;
    clprune_plan_totals totals = {0};
    for (int real = 0; real < 2; real++) {
        clprune_context *context = real ? open_real() : open_dry();
        const clprune_mat t = create(context, "t", LARGE, 16),
                          dy = create(context, "dy", LARGE, 16), ls = create(context, "ls", 1, 16),
                          dls = create(context, "dls", 1, 16);
        if (!real)
            good(context, clprune_plan_begin(context));
        for (size_t rows = real ? LARGE : SMALL; rows > 0; rows = rows == LARGE ? SMALL : 0) {
            if (real && rows == SMALL)
                good(context, clprune_context_use_plan(context, plan));
            good(context, clprune_layerscale_backward(context, 0, clprune_mat_rows(t, 0, rows), ls,
                              clprune_mat_rows(dy, 0, rows), clprune_mat_rows(t, 0, rows), dls,
                              CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, NULL));
        }
        if (real) {
            assert_int_equal(
                live(context, CLPRUNE_MEMORY_TOTAL), totals.arena_bytes + totals.other_bytes);
        } else {
            good(context, clprune_plan_create(context, &plan));
            totals = clprune_plan_sizes(plan);
            assert_true(totals.scratch_bytes > 0);
        }
        clprune_context_destroy(context);
    }
    clprune_plan_destroy(plan);
}

/* Matrices of one buffer have one place, also if a launch uses only one of them. */
static void shared_buffer(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b"};
    clprune_plan *plan = NULL;
    clprune_plan_totals totals = {0};
    for (int real = 0; real < 2; real++) {
        clprune_context *context = real ? open_real() : open_dry();
        clprune_mat mats[] = {{.rows = 64, .cols = 16}, {.rows = 32, .cols = 16}};
        if (real)
            good(context, clprune_context_use_plan(context, plan));
        else
            good(context, clprune_plan_begin(context));
        good(context, clprune_mats_create(context, CLPRUNE_MEMORY_WORKSPACE, 2, names, mats));
        const clprune_mat c = create(context, "c", 96, 16);
        good(context, clprune_mat_fill(context, 1.0f, mats[1], NULL));
        good(context, clprune_mat_fill(context, 2.0f, c, NULL));
        good(context, clprune_plan_end_step(context));
        if (!real) {
            good(context, clprune_plan_create(context, &plan));
            totals = clprune_plan_sizes(plan);
            const entries all = entries_of(plan);
            assert_int_equal(all.count, 2);
            assert_string_equal(all.entry[0].name, "a");
            assert_int_equal(all.entry[0].bytes, 96 * 64);
            assert_int_equal(totals.arena_bytes, 96 * 64);
            assert_int_equal(totals.buffer_bytes, 2 * 96 * 64);
            assert_int_equal(totals.other_bytes, 0);
        }
        assert_int_equal(live(context, CLPRUNE_MEMORY_WORKSPACE), 2 * 96 * 64);
        if (real) {
            assert_int_equal(live(context, CLPRUNE_MEMORY_TOTAL), totals.arena_bytes);
            float row[16]; /* c lies over b */
            good(context, clprune_mat_read(context, clprune_mat_rows(mats[1], 0, 1), row));
            assert_true(row[0] == 2.0f);
        }
        clprune_buffer_release(context, mats[0].buffer);
        clprune_buffer_release(context, c.buffer);
        assert_int_equal(live(context, CLPRUNE_MEMORY_TOTAL), real ? totals.arena_bytes : 0);
        clprune_context_destroy(context);
    }
    clprune_plan_destroy(plan);
}

/* A place is found by category, name and size. Buffers that share these with one that is not
 * planned, because it was created before the plan or is released in a step, have no place. */
static void doubles(void **state)
{
    (void)state;
    clprune_plan *plan = NULL;
    for (int real = 0; real < 2; real++) {
        clprune_context *context = real ? open_real() : open_dry();
        if (real)
            good(context, clprune_context_use_plan(context, plan));
        const clprune_mat early = create(context, "late", 64, 16),
                          out = create(context, "out", 64, 16);
        float row[16];
        good(context, clprune_mat_fill(context, 7.0f, early, NULL));
        if (!real)
            good(context, clprune_plan_begin(context));
        const clprune_mat x = create(context, "x", 64, 16);
        good(context, clprune_mat_fill(context, 1.0f, x, NULL));
        for (int again = 0; again < 2; again++) {
            const clprune_mat released = create(context, "t", 64, 16);
            good(context, clprune_mat_fill(context, 2.0f, released, NULL));
            clprune_buffer_release(context, released.buffer);
        }
        good(context, clprune_mat_copy(context, x, out, NULL));
        const clprune_mat t = create(context, "t", 64, 16), late = create(context, "late", 64, 16);
        good(context, clprune_mat_fill(context, 3.0f, t, NULL));
        good(context, clprune_mat_fill(context, 4.0f, late, NULL));
        good(context, clprune_plan_end_step(context));
        if (real) {
            good(context, clprune_mat_read(context, clprune_mat_rows(out, 0, 1), row));
            assert_true(row[0] == 1.0f);
            good(context, clprune_mat_read(context, clprune_mat_rows(early, 0, 1), row));
            assert_true(row[0] == 7.0f);
        } else {
            good(context, clprune_plan_create(context, &plan));
            assert_int_equal(entries_of(plan).count, 1);
            assert_int_equal(clprune_plan_sizes(plan).other_bytes, 4 * 4096);
            check_places(plan);
        }
        clprune_context_destroy(context);
    }
    clprune_plan_destroy(plan);
}

/* A forgotten buffer is NaN where that is asked for, and only there. */
static void poison(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        float values[6];
        test_debug(on ? "forget=poison" : "forget=keep");
        clprune_context *context = open_real();
        test_debug(NULL);
        const clprune_mat mat = create(context, "mat", 2, 3);
        good(context, clprune_mat_fill(context, 1.0f, mat, NULL));
        good(context, clprune_buffer_forget(context, mat.buffer));
        good(context, clprune_buffer_forget(context, NULL));
        good(context, clprune_mat_read(context, mat, values));
        for (int i = 0; i < 6; i++)
            assert_true(on ? values[i] != values[i] : values[i] == 1.0f);
        clprune_buffer_release(context, mat.buffer);
        clprune_context_destroy(context);
    }
    clprune_context *context;
    test_debug("forget=sometimes");
    const clprune_context_options options = {0};
    assert_int_equal(test_create(options, &context), CLPRUNE_INVALID_ARGUMENT);
    test_debug(NULL);
    assert_non_null(strstr(clprune_last_error(NULL), "sometimes"));
}

#define BAD(context, call, text)                                                                   \
    do {                                                                                           \
        assert_int_equal(call, CLPRUNE_INVALID_ARGUMENT);                                          \
        if (strstr(clprune_last_error(context), text) == NULL)                                     \
            fail_msg("%s", clprune_last_error(context));                                           \
    } while (0)

static void refusals(void **state)
{
    (void)state;
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
    good(dry, clprune_plan_begin(dry));
    const clprune_mat mat = create(dry, "mat", 1000, 10);
    float value[10];
    good(dry, clprune_mat_read(dry, clprune_mat_rows(mat, 5, 1), value));
    for (int i = 0; i < 10; i++)
        assert_true(value[i] == 0.0f);
    cl_event event = (cl_event)1;
    good(dry, clprune_mat_fill(dry, 0.0f, mat, &event));
    assert_null(event);
    good(dry, clprune_context_finish(dry));
    clprune_bsr bsr;
    const clprune_bsr_desc shape = {1, 4, 16, {1, 4}, 3};
    good(dry, clprune_bsr_create(dry, CLPRUNE_MEMORY_INPUT, "bsr", &shape, &bsr));
    assert_int_equal(clprune_bsr_validate(dry, &bsr), CLPRUNE_UNSUPPORTED);
    clprune_bsr_destroy(dry, &bsr);
    good(dry, clprune_plan_create(dry, &plan));
    BAD(dry, clprune_context_use_plan(dry, plan), "is dry");
    good(real, clprune_context_use_plan(real, plan));
    BAD(real, clprune_context_use_plan(real, plan), "an arena already");
    /* Only the very buffer lies in the arena, and once. */
    const uint64_t total = live(real, CLPRUNE_MEMORY_TOTAL);
    const clprune_mat other = create(real, "mat", 1000, 11), first = create(real, "mat", 1000, 10),
                      second = create(real, "mat", 1000, 10);
    assert_int_equal(live(real, CLPRUNE_MEMORY_TOTAL), total + 44000 + 40000);
    static float there[10000], back[10000]; /* transfers reach the place */
    test_fill_normal(1, 10000, there);
    good(real, clprune_mat_fill(real, 0.0f, first, NULL));
    good(real, clprune_mat_write(real, clprune_mat_rows(first, 10, 500), there));
    good(real, clprune_mat_read(real, clprune_mat_rows(first, 10, 500), back));
    assert_memory_equal(back, there, 500 * 10 * sizeof *there);
    good(real, clprune_mat_copy(real, first, second, NULL));
    good(real, clprune_mat_read(real, second, back));
    assert_memory_equal(back + 100, there, 500 * 10 * sizeof *there);
    for (int i = 0; i < 100; i++)
        assert_true(back[i] == 0.0f && back[5100 + i] == 0.0f);
    clprune_buffer_release(real, first.buffer);
    assert_int_equal(live(real, CLPRUNE_MEMORY_TOTAL), total + 44000 + 40000);
    clprune_buffer_release(real, second.buffer);
    clprune_buffer_release(real, other.buffer);
    clprune_buffer_release(real, foreign.buffer);
    clprune_context_destroy(real);

    /* No room for the arena: nothing is held, and the context goes on. */
    clprune_context *narrow = NULL;
    const clprune_context_options options = {
        .mem_limit = 30000, .kernels = clprune_context_kernels(test_context())};
    good(NULL, test_create(options, &narrow));
    assert_int_equal(clprune_context_use_plan(narrow, plan), CLPRUNE_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(live(narrow, CLPRUNE_MEMORY_TOTAL), 0);
    const clprune_mat small = create(narrow, "small", 10, 10);
    good(narrow, clprune_mat_fill(narrow, 0.0f, small, NULL));
    clprune_buffer_release(narrow, small.buffer);
    clprune_context_destroy(narrow);
    clprune_plan_destroy(plan);
    clprune_plan_destroy(NULL);
    clprune_buffer_release(dry, mat.buffer);
    clprune_context_destroy(dry);
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
static void ignored_options(void **state)
{
    (void)state;
    const clprune_context_options options = {.device = "no such device",
        .cache_dir = "/no/such/folder",
        .allocator = {.release = no_release}};
    clprune_context *dry = NULL;
    good(NULL, clprune_context_create_dry(NULL, &options, &dry));
    clprune_buffer_release(dry, create(dry, "x", 4, 4).buffer);
    clprune_context_destroy(dry);
}

/* Dry commands have no event: *event becomes NULL, whatever it was. */
static void dry_events(void **state)
{
    (void)state;
    clprune_context *dry = open_dry();
    const clprune_mat scores = create(dry, "scores", 2, 8), mask = create(dry, "mask", 2, 8);
    for (size_t keep = 0; keep <= 8; keep += 4) {
        cl_event event = (cl_event)(void *)&scores;
        good(dry, clprune_prune_select(dry, 2, 8, keep, scores.buffer, mask.buffer, &event));
        assert_null(event);
    }
    clprune_context_destroy(dry);
}

/* A command that fails half noted, for want of memory, leaves a context that can be planned. */
static void half_noted(void **state)
{
    (void)state;
    for (int at = 1;; at++) {
        clprune_context *dry = open_dry();
        clprune_plan *plan = NULL;
        good(dry, clprune_plan_begin(dry));
        const clprune_mat a = create(dry, "a", 4, 4), b = create(dry, "b", 4, 4);
        good(dry, clprune_mat_fill(dry, 0, a, NULL));
        for (int i = 0; i < 4; i++) { /* the next life of b needs room */
            good(dry, clprune_mat_fill(dry, 0, b, NULL));
            good(dry, clprune_buffer_forget(dry, b.buffer));
        }
        allocations_left = at;
        const clprune_status status = clprune_mat_copy(dry, a, b, NULL);
        const bool failed = allocations_left == 0;
        allocations_left = 0;
        if (failed)
            assert_int_equal(status, CLPRUNE_OUT_OF_HOST_MEMORY);
        else
            good(dry, status);
        good(dry, clprune_plan_create(dry, &plan));
        const entries all = entries_of(plan);
        const uint64_t commands = clprune_plan_sizes(plan).commands;
        for (size_t i = 0; i < all.count; i++)
            for (size_t k = 0; k < all.entry[i].spans_count; k++)
                assert_true(all.entry[i].spans[k].last < commands);
        clprune_plan_destroy(plan);
        clprune_context_destroy(dry);
        if (!failed)
            break;
    }
}

int main(void)
{
    static const uint32_t seeds[] = {1, 2, 3, 4};
    test_list list = {0};
    test_add(&list, programs, NULL, "programs are counted");
    test_add(&list, lives, NULL, "lives by hand");
    for (size_t i = 0; i < 4; i++)
        test_add(&list, random_lives, &seeds[i], "random lives %u", (unsigned)seeds[i]);
    test_add(&list, arena, NULL, "a planned program gives the same bits");
    test_add(&list, arena, &list, "a planned program in small slabs gives the same bits");
    test_add(&list, small_slabs, NULL, "small slabs");
    test_add(&list, shared_place, NULL, "operands of one call in one place");
    test_add(&list, shared_buffer, NULL, "matrices of one buffer");
    test_add(&list, earlier_scratch, NULL, "scratch of earlier operations");
    test_add(&list, doubles, NULL, "buffers with one name and size");
    test_add(&list, half_noted, NULL, "a command that is half noted");
    test_add(&list, poison, NULL, "forgotten is NaN on request");
    test_add(&list, ignored_options, NULL, "options that a dry context ignores");
    test_add(&list, dry_events, NULL, "dry commands have no event");
    test_add(&list, refusals, NULL, "what is refused");
    return test_run_on_devices("plan", &list);
}
