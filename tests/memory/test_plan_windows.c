/* Every kind of argument in the arena of a plan: a place is a part of a larger OpenCL buffer, so a
 * command that loses its offset reads or writes another place. Each case runs in buffers of its
 * own and in an arena, and one with CLPRUNE_DEBUG=arena=off, too: the bits are the same. */
#include "support/test.h"
#include "support/test_plan.h"

#include "ops/prune/prune_private.h"
#include "runtime/memory/scratch.h"

enum { MATS = 24, RESULTS = 1 << 16 };

/* A case in one context. */
typedef struct stage {
    clprune_context *context;
    clprune_mat mats[MATS];
    size_t count;
    float *results;
    size_t given;
} stage;

/* A matrix with a place, of numbers that follow from `seed`; 0: zeros. */
static clprune_mat mat(stage *s, size_t rows, size_t cols, uint64_t seed)
{
    assert_true(s->count < MATS);
    const clprune_mat made = create(s->context, test_text("m%zu", s->count), rows, cols);
    float *values = test_alloc(rows * cols * sizeof *values);
    memset(values, 0, rows * cols * sizeof *values);
    if (seed > 0)
        test_fill_normal(seed, rows * cols, values);
    TEST_OK(clprune_mat_write(s->context, made, values));
    s->mats[s->count++] = made;
    return made;
}

/* What a case compares. */
static void give(stage *s, clprune_mat from)
{
    assert_true(s->given + from.rows * from.cols <= RESULTS);
    TEST_OK(clprune_mat_read(s->context, from, s->results + s->given));
    s->given += from.rows * from.cols;
}

static void write_bytes(stage *s, clprune_mat to, const void *bytes)
{
    TEST_OK(clprune_mat_write(s->context, to, bytes));
}

/* Columns [first, first + cols) of a matrix. */
static clprune_mat window(clprune_mat of, size_t first, size_t cols)
{
    of.offset += first;
    of.cols = cols;
    return of;
}

static void transfers(stage *s)
{
    const clprune_mat a = mat(s, 20, 30, 1), b = mat(s, 20, 30, 2);
    float values[5 * 7];
    test_fill_normal(3, COUNT_OF(values), values);
    TEST_OK(clprune_mat_write(s->context, clprune_mat_rows(window(a, 11, 7), 3, 5), values));
    TEST_OK(clprune_mat_copy(s->context, window(a, 0, 9), window(b, 21, 9), NULL));
    TEST_OK(clprune_mat_fill(s->context, 0.5f, clprune_mat_rows(window(b, 1, 3), 2, 4), NULL));
    give(s, window(a, 10, 9));
    give(s, b);
}

static void products(stage *s)
{
    const clprune_mat a = mat(s, 64, 48, 1), b = mat(s, 48, 32, 2), c = mat(s, 64, 32, 3),
                      d = mat(s, 48, 48, 4);
    TEST_OK(clprune_gemm(s->context, false, false, 1, 0, a, b, c, NULL));
    TEST_OK(clprune_gemm(
        s->context, true, false, 0.5f, 1, c, c, clprune_mat_rows(window(d, 3, 32), 8, 32), NULL));
    TEST_OK(clprune_gemm_batched(s->context, 2, false, true, 1, 0, clprune_mat_rows(a, 0, 8),
        32 * 48, clprune_mat_rows(a, 8, 8), 32 * 48, clprune_mat_rows(window(c, 5, 8), 0, 8),
        8 * 32, NULL));
    give(s, c);
    give(s, d);
}

static const clprune_bsr_desc shapes[] = {
    {3, 16, 48, {1, 16}, 20, CLPRUNE_VALUES_FP32, CLPRUNE_INDEX_INT32, {0}},
    {3, 16, 48, {4, 8}, 9, CLPRUNE_VALUES_INT4, CLPRUNE_INDEX_BITMAP, {0}}};

static void sparse(stage *s)
{
    const clprune_mat x = mat(s, 48, 48, 1), y = mat(s, 48, 48, 0), dy = mat(s, 48, 24, 2),
                      dw = mat(s, 24, 48, 3);
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        clprune_bsr xs;
        TEST_OK(clprune_bsr_create(
            s->context, CLPRUNE_MEMORY_WORKSPACE, test_text("bsr%zu", i), &shapes[i], &xs));
        TEST_OK(
            clprune_prune(s->context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, x, &xs, NULL));
        const clprune_bsr last = clprune_bsr_samples(&xs, 1, 2);
        TEST_OK(clprune_bsr_unpack(s->context, &xs, y, NULL));
        give(s, y);
        TEST_OK(clprune_bspmm_tn(s->context, 1, 1, clprune_mat_rows(dy, 16, 32), &last, dw, NULL));
        give(s, dw);
    }
}

/* Buffers that a call takes without an offset, which have theirs all the same. */
static void scores(stage *s)
{
    const clprune_bsr_desc *desc = &shapes[0];
    const clprune_mat x = mat(s, 48, 48, 1), to = mat(s, 3, 48, 0), mask = mat(s, 3, 12, 0),
                      y = mat(s, 48, 48, 0);
    clprune_bsr xs;
    clprune_bsr_sizes sizes;
    const clprune__region scores = {to.buffer, 0, sizeof(float)};
    TEST_OK(clprune_bsr_size_query(desc, &sizes));
    TEST_OK(clprune__prune_score(s->context, CLPRUNE_NORM_L1, desc, &sizes, x, NULL, scores, NULL));
    TEST_OK(clprune__prune_select(s->context, 3, 48, 20, scores,
        (clprune__region){mask.buffer, 0, 1}, (clprune__region){0}, NULL));
    TEST_OK(clprune_bsr_create(s->context, CLPRUNE_MEMORY_WORKSPACE, "bsr", desc, &xs));
    TEST_OK(clprune_bsr_pack(s->context, x, mask.buffer, &xs, NULL));
    TEST_OK(clprune_bsr_unpack(s->context, &xs, y, NULL));
    give(s, to);
    give(s, y);
}

static void integers(stage *s)
{
    const clprune_mat logits = mat(s, 6, 10, 1), log_p = mat(s, 6, 10, 0), loss = mat(s, 6, 1, 0),
                      hit = mat(s, 6, 1, 0), labels = mat(s, 1, 8, 0), weight = mat(s, 10, 16, 2),
                      rows = mat(s, 6, 16, 0);
    const int32_t numbers[8] = {9, 9, 1, 2, 3, 9, 0, 5};
    const clprune_ints ints = {labels.buffer, 2};
    write_bytes(s, labels, numbers);
    TEST_OK(clprune_cross_entropy_forward(s->context, 0.1f, logits, ints, log_p, loss, hit, NULL));
    TEST_OK(clprune_cross_entropy_backward(s->context, 0.1f, 0.25f, log_p, ints, logits, NULL));
    TEST_OK(clprune_embedding_forward(s->context, ints, weight, rows, NULL));
    give(s, loss);
    give(s, hit);
    give(s, logits);
    give(s, rows);
}

static void images(stage *s)
{
    enum { BYTES = 2 * 3 * 5 * 7 };
    const clprune_mat bytes = mat(s, 1, 64, 0), levels = mat(s, 3, 256, 1),
                      y = mat(s, 2 * 5 * 7, 3, 0);
    unsigned char pixels[64 * 4];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(37 * i);
    write_bytes(s, bytes, pixels);
    assert_true(BYTES + 5 < sizeof pixels);
    TEST_OK(clprune_image_bytes_channels_last(s->context, 2, 3, (clprune_extent){5, 7},
        (clprune_image_bytes){bytes.buffer, 5, levels}, y, NULL));
    give(s, y);
}

/* Values and gradients with a place; one of them two, in one buffer. */
static void optimizers(stage *s)
{
    static const clprune_optimizer_kind kinds[] = {CLPRUNE_OPTIMIZER_SGD, CLPRUNE_OPTIMIZER_LAMB};
    const clprune_mat value = mat(s, 70, 33, 1), grad = mat(s, 70, 33, 2), rest = mat(s, 3, 50, 3),
                      of_rest = mat(s, 3, 50, 4), norm = mat(s, 1, 1, 0);
    const clprune_param params[] = {{"a", window(value, 1, 30), window(grad, 2, 30), true, {0}},
        {"b", clprune_mat_rows(rest, 0, 2), clprune_mat_rows(of_rest, 0, 2), false, {0}},
        {"c", clprune_mat_rows(rest, 2, 1), clprune_mat_rows(of_rest, 2, 1), true, {0}}};
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        clprune_optimizer *optimizer =
            test_new_optimizer(s->context, test_optimizer_desc(kinds[k]), COUNT_OF(params), params);
        TEST_OK(clprune_optimizer_clip(optimizer, 0.5f, norm, NULL));
        TEST_OK(clprune_optimizer_step(optimizer, 0.01f, NULL));
        if (kinds[k] != CLPRUNE_OPTIMIZER_LAMB)
            TEST_OK(clprune_optimizer_update(optimizer, of_rest.buffer, 0.01f, NULL));
        give(s, value);
        give(s, rest);
        give(s, grad);
        give(s, norm);
    }
}

static const clprune_keep keeps[] = {
    {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f, .criterion = CLPRUNE_CRITERION_SAMPLED},
    {.form = CLPRUNE_FORM_PRUNED,
        .sparsity = 0.5f,
        .value_type = CLPRUNE_VALUES_INT8,
        .index_type = CLPRUNE_INDEX_BITMAP,
        .centre = CLPRUNE_CENTRE_SAMPLE},
    {.form = CLPRUNE_FORM_GELU_CODE, .bits = 4}, {.form = CLPRUNE_FORM_QUANTISED, .bits = 2},
    {.form = CLPRUNE_FORM_QUANTISED, .bits = 16}, {.form = CLPRUNE_FORM_POOLED, .cell = 4}};

static void stores(stage *s)
{
    enum { BATCH = 3, ROWS = 8, COLS = 48 };
    const clprune_mat x = mat(s, BATCH * ROWS, COLS, 1), y = mat(s, BATCH * ROWS, COLS, 0),
                      dy = mat(s, BATCH * ROWS, 16, 2), dw = mat(s, 16, COLS, 3);
    for (size_t i = 0; i < COUNT_OF(keeps); i++) {
        clprune_saved *saved = NULL;
        TEST_OK(clprune_saved_create(
            s->context, test_text("kept%zu", i), &keeps[i], BATCH, ROWS, COLS, &saved));
        (void)test_own_saved(s->context, saved);
        TEST_OK(clprune_saved_store(saved, 0, BATCH, x, NULL));
        TEST_OK(clprune_saved_restore(saved, 1, 2, clprune_mat_rows(y, ROWS, 2 * ROWS), NULL));
        give(s, y);
        TEST_OK(clprune_saved_product_tn(
            saved, 1, 2, 0.5f, clprune_mat_rows(dy, ROWS, 2 * ROWS), dw, NULL));
        give(s, dw);
    }
}

static void convolution(stage *s)
{
    const clprune_extent image = {6, 6};
    const clprune_conv2d_desc desc = {
        .in = 16, .out = 32, .kernel = {3, 3}, .padding = {1, 1}, .keep = keeps[0]};
    clprune_conv2d *layer = test_new_conv2d(s->context, desc);
    const clprune_mat x = mat(s, 72, 16, 1), w = mat(s, 32, 144, 2), b = mat(s, 1, 32, 3),
                      y = mat(s, 72, 32, 4), dx = mat(s, 72, 16, 0), dw = mat(s, 32, 144, 0),
                      db = mat(s, 1, 32, 0);
    clprune_saved *saved = NULL;
    TEST_OK(clprune_conv2d_saved_create(layer, 2, image, "x", &saved));
    (void)test_own_saved(s->context, saved);
    TEST_OK(clprune_conv2d_forward(layer, 2, image, x, w, b, y, saved, NULL));
    give(s, y);
    TEST_OK(clprune_conv2d_backward(
        layer, 2, image, saved, y, w, &(clprune_grads){.dx = dx, .dw = dw, .db = db}, NULL));
    give(s, dx);
    give(s, dw);
    give(s, db);
}

/* Matrices of one place overlap where their elements do, those of two places nowhere. */
static void aliases(stage *s)
{
    const clprune_mat a = mat(s, 4, 8, 1), b = mat(s, 4, 8, 2);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    assert_int_equal(
        clprune_mat_copy(s->context, clprune_mat_rows(a, 0, 2), clprune_mat_rows(a, 1, 2), NULL),
        bad);
    assert_int_equal(clprune_mat_copy(s->context, a, clprune_mat_rows(a, 1, 4), NULL),
        CLPRUNE_INVALID_SIZE); /* beyond the place, though not beyond its OpenCL buffer */
    TEST_OK(
        clprune_mat_copy(s->context, clprune_mat_rows(a, 0, 2), clprune_mat_rows(a, 2, 2), NULL));
    TEST_OK(clprune_gelu_forward(s->context, b, CLPRUNE_NO_MAT, b, NULL)); /* in place */
    TEST_OK(clprune_mat_copy(s->context, a, b, NULL));
    give(s, b);
}

typedef struct row {
    const char *name;
    void (*run)(stage *s);
    bool bf16; /* also in bf16, whose matrices have other elements */
} row;

static const row rows[] = {{"transfers", transfers, false}, {"products", products, false},
    {"sparse", sparse, false}, {"scores and masks", scores, false}, {"integers", integers, false},
    {"images", images, false}, {"optimizers", optimizers, false}, {"stores", stores, true},
    {"a convolution", convolution, false}, {"aliases", aliases, false}};

enum { PLAIN, PLANNED, RUNS, SCRATCH = 4096 };

/* Runs a case between commands that use all of its matrices, with scratch below them: so each has a
 * place of its own, none of them at the beginning of the arena. Then nothing is released before the
 * plan is made. */
static void act(const row *r, stage *s)
{
    clprune_context *context = s->context;
    r->run(s);
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    clprune_mat scratch;
    TEST_OK(clprune__scratch_mat(context, 1, SCRATCH, &scratch));
    for (size_t i = 0; i < s->count; i++)
        TEST_OK(clprune_mat_copy(context, clprune_mat_rows(s->mats[i], 0, 1),
            window(scratch, 0, s->mats[i].cols), NULL));
    clprune__scratch_end(context, mark);
    TEST_OK(clprune_plan_end_step(context));
}

/* Each matrix is a window of a slab, or in a buffer of its own. */
static void check_windows(const stage *s, bool placed)
{
    for (size_t i = 0; i < s->count; i++) {
        const cl_mem buffer = s->mats[i].buffer;
        cl_mem whole = NULL;
        size_t origin = 1, bytes = 0;
        TEST_OK(clprune_buffer_window(s->context, buffer, &whole, &origin));
        TEST_CL(clGetMemObjectInfo(whole, CL_MEM_SIZE, sizeof bytes, &bytes, NULL));
        assert_int_equal(whole != buffer, placed);
        assert_int_equal(origin > 0, placed);
        assert_int_equal(origin % CLPRUNE__ARENA_ALIGN, 0);
        assert_true(origin + s->mats[i].rows * s->mats[i].cols * sizeof(float) <= bytes);
    }
    TEST_FAILS_IN(s->context, clprune_buffer_window(s->context, NULL, NULL, NULL),
        CLPRUNE_INVALID_ARGUMENT, "is NULL");
}

static void same(void **state)
{
    const row *r = *state;
    static float results[RUNS][RESULTS];
    static const clprune_precision precisions[] = {CLPRUNE_PRECISION_FP32, CLPRUNE_PRECISION_BF16};
    for (size_t p = 0; p <= r->bf16; p++) {
        const clprune_context_options options = {
            .kernels = clprune_context_kernels(test_context()), .precision = precisions[p]};
        const clprune_device_info device = clprune_context_device_info(test_context());
        test_debug("mma=emulated");
        stage dry = {.context = test_open_dry(&device, &options), .results = results[0]};
        TEST_OK(clprune_plan_begin(dry.context));
        act(r, &dry);
        const clprune_plan *plan = test_new_plan(dry.context);
        check_places(plan);
        memset(results, 0, sizeof results);
        size_t given = 0;
        for (int run = 0; run < RUNS; run++) {
            stage s = {.context = test_open(options), .results = results[run]};
            if (run == PLANNED)
                TEST_OK(clprune_context_use_plan(s.context, plan));
            act(r, &s);
            check_windows(&s, run == PLANNED);
            assert_true(s.given > 0 && (run == PLAIN || s.given == given));
            given = s.given;
            assert_memory_equal(results[run], results[PLAIN], given * sizeof(float));
            assert_int_equal(test_live(s.context, CLPRUNE_MEMORY_ACTIVATIONS),
                test_live(dry.context, CLPRUNE_MEMORY_ACTIVATIONS));
            assert_int_equal(test_live(s.context, CLPRUNE_MEMORY_ARENA),
                run == PLANNED ? clprune_plan_sizes(plan).arena_bytes : 0);
            test_end(s.context);
        }
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, same, rows, "in an arena: %s");
    return test_run_on_devices("plan_windows", &list);
}
