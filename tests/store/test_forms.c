/* Properties of every form of kept tensors: parts of a batch, memory of the caller, other shapes,
 * both products with any beta, refusals.
 *
 * Samples that were never stored are refused. A refused forward pass leaves the store as it was. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ref/bspmm_ref.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_rng.h"

enum { BATCH = 3, ROWS = 12, COLS = 41, OUT = 18, ELEMENTS = BATCH * ROWS * COLS };

typedef struct form_row {
    const char *name;
    clprune_keep keep;
} form_row;

static const form_row rows[] = {
    {"dense", {.form = CLPRUNE_FORM_DENSE}},
    {"pruned", {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.7f}},
    {"pruned, int8, smallest, sampled", {.form = CLPRUNE_FORM_PRUNED,
                                            .sparsity = 0.4f,
                                            .block = {2, 5},
                                            .value_type = CLPRUNE_VALUES_INT8,
                                            .index_type = CLPRUNE_INDEX_SMALLEST,
                                            .criterion = CLPRUNE_CRITERION_SAMPLED}},
    {"pruned, centred", {.form = CLPRUNE_FORM_PRUNED,
                            .sparsity = 0.5f,
                            .block = {1, 8},
                            .centre = CLPRUNE_CENTRE_SAMPLE,
                            .value_type = CLPRUNE_VALUES_FP16}},
    {"pruned, centred by cells", {.form = CLPRUNE_FORM_PRUNED,
                                     .sparsity = 0.5f,
                                     .block = {1, 8},
                                     .centre = CLPRUNE_CENTRE_CELLS,
                                     .cell = 5}},
    {"mean", {.form = CLPRUNE_FORM_MEAN}},
    {"gelu code, 2 bits", {.form = CLPRUNE_FORM_GELU_CODE, .bits = 2}},
    {"mask", {.form = CLPRUNE_FORM_MASK}},
    {"gelu code, 8 bits", {.form = CLPRUNE_FORM_GELU_CODE, .bits = 8}},
    {"quantised, 4 bits", {.form = CLPRUNE_FORM_QUANTISED, .bits = 4, .group = 32}},
    {"quantised, 8 bits, nearest",
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rounding = CLPRUNE_ROUNDING_NEAREST}},
    {"pooled", {.form = CLPRUNE_FORM_POOLED, .cell = 5}},
};

static clprune_saved *make_saved(const form_row *row)
{
    clprune_saved *saved = NULL;
    TEST_OK(clprune_saved_create(test_context(), "s", &row->keep, BATCH, ROWS, COLS, &saved));
    return saved;
}

/* What is kept of samples [first, first + count), as an array. */
static float *restored(const clprune_saved *saved, size_t first, size_t count)
{
    const clprune_saved_info info = clprune_saved_describe(saved);
    test_mat y = test_mat_make(count * info.rows, info.cols, 2, NULL);
    cl_event event = NULL;
    TEST_OK(clprune_saved_restore(saved, first, count, y.mat, &event));
    assert_non_null(event);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
    float *got = test_mat_get(&y, "restored");
    return got;
}

static void store_all(clprune_saved *saved, const float *x)
{
    const clprune_saved_info info = clprune_saved_describe(saved);
    test_mat mx = test_mat_make(info.batch * info.rows, info.cols, 3, x);
    cl_event event = NULL;
    TEST_OK(clprune_saved_store(saved, 0, info.batch, mx.mat, &event));
    assert_non_null(event);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
    test_mat_unchanged(&mx, "x");
}

/* Parts stored one by one, last first, are kept as the whole is; any part is restored alone. */
static void parts(void **state)
{
    const form_row *row = *state;
    clprune_saved *whole = make_saved(row), *apart = make_saved(row);
    clprune_saved_set_seed(whole, 5);
    clprune_saved_set_seed(apart, 5);
    float *x = test_new_normal(11, ELEMENTS);
    store_all(whole, x);
    test_mat mx = test_mat_make(BATCH * ROWS, COLS, 0, x);
    for (size_t n = BATCH; n-- > 0;)
        TEST_OK(clprune_saved_store(apart, n, 1, clprune_mat_rows(mx.mat, n * ROWS, ROWS), NULL));
    float *want = restored(whole, 0, BATCH);
    for (size_t first = 0; first <= BATCH; first++)
        for (size_t count = 0; first + count <= BATCH; count++) {
            float *got = restored(apart, first, count);
            test_same_floats("a part", count * ROWS, COLS, got, want + first * ROWS * COLS,
                "%s, %zu samples from %zu on", row->name, count, first);
        }
    clprune_saved_destroy(whole);
    clprune_saved_destroy(apart);
}

/* Both products are those of what is restored, whatever is added to. */
static void products(void **state)
{
    const form_row *row = *state;
    clprune_saved *saved = make_saved(row);
    float *x = test_new_normal(13, ELEMENTS);
    store_all(saved, x);
    float *kept = restored(saved, 0, BATCH);
    for (int nt = 0; nt < 2; nt++) {
        const size_t each = nt ? OUT : ROWS, dy_cols = nt ? COLS : OUT, dw_cols = nt ? ROWS : COLS;
        float *dy = test_new_normal(14, BATCH * each * dy_cols);
        float *old = test_new_normal(15, OUT * dw_cols);
        test_mat mdy = test_mat_make(BATCH * each, dy_cols, 2, dy);
        test_mat dw = test_mat_make(OUT, dw_cols, 1, NULL);
        static const float betas[] = {0, 1, 0.5f};
        static const size_t ranges[][2] = {{0, BATCH}, {1, 2}, {2, 1}, {1, 0}};
        for (size_t i = 0; i < 3; i++)
            for (size_t r = 0; r < 4; r++) {
                const size_t first = ranges[r][0], count = ranges[r][1];
                const bspmm_ref_sizes sizes = {count, ROWS, COLS, OUT};
                const clprune_mat part = clprune_mat_rows(mdy.mat, first * each, count * each);
                test_mat_set(&dw, betas[i] != 0 ? old : NULL); /* 0 must not read the NaNs */
                cl_event event = NULL;
                TEST_OK((nt ? clprune_saved_product_nt : clprune_saved_product_tn)(
                    saved, first, count, betas[i], part, dw.mat, &event));
                assert_non_null(event);
                assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
                gemm_ref ref = (nt ? bspmm_ref_nt : bspmm_ref_tn)(sizes, 1, betas[i],
                    dy + first * each * dy_cols, kept + first * ROWS * COLS, old);
                float *got = test_mat_get(&dw, "dw");
                test_close("dw", OUT, dw_cols, got, ref.want, ref.bound,
                    "%s, %s, %zu samples from %zu on, beta %g", nt ? "nt" : "tn", row->name, count,
                    first, (double)betas[i]);
            }
    }
    clprune_saved_destroy(saved);
}

/* Samples of 3.4 MB each, two of which fit the scratch of a chunk: a call for three samples gives
 * the bits of two calls. For forms that store or multiply in chunks. */
static void chunks(void **state)
{
    enum { LONG = 5, WIDE = 170000, FEW = 2 };
    const form_row *row = *state;
    clprune_saved *whole = NULL, *apart = NULL;
    TEST_OK(clprune_saved_create(test_context(), "w", &row->keep, BATCH, LONG, WIDE, &whole));
    TEST_OK(clprune_saved_create(test_context(), "a", &row->keep, BATCH, LONG, WIDE, &apart));
    float *x = test_new_normal(25, (size_t)BATCH * LONG * WIDE);
    test_mat mx = test_mat_make(BATCH * LONG, WIDE, 0, x);
    const clprune_mat last = clprune_mat_rows(mx.mat, 2 * LONG, LONG);
    TEST_OK(clprune_saved_store(whole, 0, 3, mx.mat, NULL));
    TEST_OK(clprune_saved_store(apart, 0, 2, clprune_mat_rows(mx.mat, 0, 2 * LONG), NULL));
    TEST_OK(clprune_saved_store(apart, 2, 1, last, NULL));
    float *got = restored(whole, 0, BATCH), *want = restored(apart, 0, BATCH);
    test_same_floats("stored", BATCH * LONG, WIDE, got, want, "%s", row->name);
    for (int nt = 0; nt < 2; nt++) {
        const size_t each = nt ? FEW : LONG, dy_cols = nt ? WIDE : FEW, cols = nt ? LONG : WIDE;
        float *dy = test_new_normal(26, BATCH * each * dy_cols);
        float *old = test_new_normal(27, FEW * cols);
        test_mat mdy = test_mat_make(BATCH * each, dy_cols, 0, dy);
        test_mat once = test_mat_make(FEW, cols, 0, old), twice = test_mat_make(FEW, cols, 0, old);
        clprune_status (*const product)(const clprune_saved *, size_t, size_t, float, clprune_mat,
            clprune_mat, cl_event *) = nt ? clprune_saved_product_nt : clprune_saved_product_tn;
        cl_event event = NULL;
        TEST_OK(product(whole, 0, 3, 0.5f, mdy.mat, once.mat, &event));
        assert_non_null(event);
        assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
        TEST_OK(
            product(whole, 0, 2, 0.5f, clprune_mat_rows(mdy.mat, 0, 2 * each), twice.mat, NULL));
        TEST_OK(
            product(whole, 2, 1, 1, clprune_mat_rows(mdy.mat, 2 * each, each), twice.mat, NULL));
        got = test_mat_get(&once, "dw");
        want = test_mat_get(&twice, "dw");
        test_same_floats("dw", FEW, cols, got, want, "%s, %s", nt ? "nt" : "tn", row->name);
    }
    clprune_saved_destroy(whole);
    clprune_saved_destroy(apart);
}

/* The same bits in the caller's memory, and nothing around it is touched. */
static void lent(void **state)
{
    const form_row *row = *state;
    clprune_context *context = test_context();
    enum { BEFORE = 3 * CLPRUNE_SAVED_ALIGN, BEHIND = 100 };
    clprune_saved_sizes sizes;
    TEST_OK(clprune_saved_size_query(&row->keep, BATCH, ROWS, COLS, &sizes));
    assert_int_equal(sizes.bytes % CLPRUNE_SAVED_ALIGN, 0);
    assert_int_equal(sizes.dense_bytes, ELEMENTS * sizeof(float));
    assert_true(sizes.values_bytes + sizes.index_bytes <= sizes.bytes);
    const size_t all = BEFORE + sizes.bytes + BEHIND;
    unsigned char *bytes = test_alloc(all);
    memset(bytes, 0xa5, all);
    cl_int code;
    cl_mem buffer = clCreateBuffer(
        clprune_context_cl(context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, all, bytes, &code);
    assert_int_equal(code, CL_SUCCESS);
    const uint64_t live = clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    clprune_saved *saved = NULL, *own = make_saved(row);
    TEST_OK(clprune_saved_create_in(
        context, &row->keep, BATCH, ROWS, COLS, buffer, BEFORE, sizes.bytes, &saved));
    clprune_saved_set_seed(saved, 9);
    clprune_saved_set_seed(own, 9);
    assert_int_equal(
        clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live, live + sizes.bytes);
    float *x = test_new_normal(17, ELEMENTS);
    store_all(saved, x);
    store_all(own, x);
    float *got = restored(saved, 0, BATCH), *want = restored(own, 0, BATCH);
    test_same_floats("lent", BATCH * ROWS, COLS, got, want, "%s", row->name);
    const clprune_saved_info info = clprune_saved_describe(saved);
    assert_ptr_equal(info.buffer, buffer);
    assert_int_equal(info.offset, BEFORE);
    assert_int_equal(info.bytes, sizes.bytes);
    assert_memory_equal(&info.sizes, &sizes, sizeof sizes);
    clprune_saved_destroy(saved);
    assert_int_equal(clEnqueueReadBuffer(clprune_context_queue(context), buffer, CL_TRUE, 0, all,
                         bytes, 0, NULL, NULL),
        CL_SUCCESS);
    for (size_t i = 0; i < all; i++)
        if ((i < BEFORE || i >= BEFORE + sizes.bytes) && bytes[i] != 0xa5)
            fail_msg("%s: byte %zu of the buffer was written", row->name, i);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, size = CLPRUNE_INVALID_SIZE;
    TEST_FAILS(clprune_saved_create_in(
                   context, &row->keep, BATCH, ROWS, COLS, buffer, BEFORE, sizes.bytes - 1, &saved),
        size, "the region has");
    TEST_FAILS(clprune_saved_create_in(
                   context, &row->keep, BATCH, ROWS, COLS, buffer, 4, sizes.bytes, &saved),
        bad, "offset");
    TEST_FAILS(clprune_saved_create_in(
                   context, &row->keep, BATCH, ROWS, COLS, buffer, BEFORE, all, &saved),
        size, "buffer");
    TEST_FAILS(clprune_saved_create_in(context, &row->keep, BATCH, ROWS, COLS, buffer,
                   SIZE_MAX - CLPRUNE_SAVED_ALIGN + 1, sizes.bytes, &saved),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_FAILS(clprune_saved_create_in(
                   context, &row->keep, BATCH, ROWS, COLS, NULL, 0, sizes.bytes, &saved),
        bad, "buffer");
    assert_null(saved);
    assert_int_equal(clReleaseMemObject(buffer), CL_SUCCESS);
    clprune_saved_destroy(own);
}

/* A store takes other shapes that fit its bytes, as a store made for them would. */
static void shapes(void **state)
{
    const form_row *row = *state;
    clprune_saved *saved = make_saved(row), *fresh = NULL;
    static const size_t others[][3] = {{1, 20, 41}, {2, 7, 33}, {BATCH, ROWS, COLS}, {0, 5, 5}};
    float *x = test_new_normal(19, ELEMENTS);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const size_t *o = others[i];
        TEST_OK(clprune_saved_reshape(saved, o[0], o[1], o[2]));
        TEST_OK(
            clprune_saved_create(test_context(), "fresh", &row->keep, o[0], o[1], o[2], &fresh));
        store_all(saved, x);
        store_all(fresh, x);
        float *got = restored(saved, 0, o[0]), *want = restored(fresh, 0, o[0]);
        test_same_floats("reshaped", o[0] * o[1], o[2], got, want, "%s, %zu samples of %zu x %zu",
            row->name, o[0], o[1], o[2]);
        clprune_saved_destroy(fresh);
    }
    TEST_OK(clprune_saved_reshape(saved, BATCH, ROWS, COLS));
    TEST_FAILS(clprune_saved_reshape(saved, 20 * BATCH, ROWS, 20 * COLS), CLPRUNE_INVALID_SIZE,
        "the store has");
    TEST_FAILS(clprune_saved_reshape(saved, SIZE_MAX / 2, ROWS, COLS), CLPRUNE_SIZE_OVERFLOW, NULL);
    const clprune_saved_info info = clprune_saved_describe(saved);
    assert_int_equal(info.batch, BATCH); /* as before what was refused */
    assert_int_equal(info.rows, ROWS);
    assert_int_equal(info.cols, COLS);
    assert_int_equal(clprune_saved_reshape(NULL, 1, 1, 1), CLPRUNE_INVALID_ARGUMENT);
    clprune_saved_destroy(saved);
}

/* Forms that are matrices may have been written as such. */
static bool is_guarded(const form_row *row)
{
    const clprune_form f = row->keep.form;
    return f == CLPRUNE_FORM_PRUNED || f == CLPRUNE_FORM_MEAN || f == CLPRUNE_FORM_QUANTISED ||
           f == CLPRUNE_FORM_POOLED;
}

/* Samples that were not stored cannot be read: the index of a pruned one would lead anywhere. */
static void never_stored(void **state)
{
    const form_row *row = *state;
    clprune_context *context = test_context();
    clprune_saved *saved = make_saved(row);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat x = test_mat_make(BATCH * ROWS, COLS, 0, NULL), y = x;
    test_mat dy = test_mat_make(BATCH * ROWS, OUT, 0, NULL), dw = test_mat_make(OUT, COLS, 0, NULL);
    test_mat across = test_mat_make(BATCH * OUT, COLS, 0, NULL);
    test_mat over = test_mat_make(OUT, ROWS, 0, NULL);
    const clprune_linear_desc desc = {.in = COLS, .out = OUT, .keep = row->keep};
    clprune_linear *linear;
    TEST_OK(clprune_linear_create(context, &desc, &linear));
    for (int reshaped = 0; reshaped < 2; reshaped++) {
        TEST_FAILS(clprune_saved_restore(saved, 0, BATCH, x.mat, NULL), bad, "sample 0 of saved");
        TEST_FAILS(clprune_saved_product_tn(saved, 0, BATCH, 0, dy.mat, dw.mat, NULL), bad,
            "sample 0 of saved");
        TEST_FAILS(clprune_saved_product_nt(saved, 0, BATCH, 0, across.mat, over.mat, NULL), bad,
            "sample 0 of saved");
        TEST_FAILS(clprune_linear_backward(linear, BATCH, saved, dy.mat, CLPRUNE_NO_MAT,
                       &(clprune_grads){.dw = dw.mat}, NULL),
            bad, "sample 0 of saved");
        TEST_FAILS(clprune_activation_backward(context, CLPRUNE_ACTIVATION_RELU, 0, BATCH, saved,
                       x.mat, &(clprune_grads){.dx = x.mat}, NULL),
            bad, "sample 0 of saved");
        TEST_OK(clprune_saved_restore(saved, 1, 0, clprune_mat_rows(x.mat, 0, 0), NULL));
        store_all(saved, NULL);
        TEST_OK(clprune_saved_restore(saved, 0, BATCH, x.mat, NULL));
        TEST_OK(clprune_saved_reshape(saved, BATCH, ROWS, COLS));
    }
    y.mat = clprune_mat_rows(x.mat, 0, ROWS);
    TEST_OK(clprune_saved_store(saved, 1, 1, y.mat, NULL));
    TEST_OK(clprune_saved_restore(saved, 1, 1, y.mat, NULL));
    TEST_FAILS(clprune_saved_restore(saved, 0, BATCH, x.mat, NULL), bad, "sample 0 of saved");
    TEST_OK(clprune_saved_store(saved, 0, 1, y.mat, NULL));
    TEST_FAILS(clprune_saved_restore(saved, 0, BATCH, x.mat, NULL), bad, "sample 2 of saved");
    clprune_linear_destroy(linear);
    clprune_saved_destroy(saved);
}

static void free_layers(clprune_linear *linear, clprune_conv2d *conv, clprune_saved *saved)
{
    clprune_linear_destroy(linear);
    clprune_conv2d_destroy(conv);
    clprune_saved_destroy(saved);
}

/* A forward pass that is refused leaves the store as it was, though x has another shape. */
static void refused(void **state)
{
    const form_row *row = *state;
    clprune_context *context = test_context();
    enum { ROOM = 4 * ELEMENTS, FEWER = ROWS - 5, REGION = ROOM * sizeof(float) / 64 * 64 };
    clprune_mat room;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, "room", 1, ROOM, &room));
    clprune_saved *saved = NULL;
    TEST_OK(clprune_saved_create_in(
        context, &row->keep, BATCH, ROWS, COLS, room.buffer, 0, REGION, &saved));
    float *values = test_new_normal(33, ELEMENTS);
    store_all(saved, values);
    float *want = restored(saved, 0, BATCH);
    const clprune_linear_desc desc = {.in = COLS, .out = OUT, .keep = row->keep};
    const clprune_conv2d_desc of_images = {
        .in = COLS, .out = OUT, .kernel = {1, 1}, .keep = row->keep};
    clprune_linear *linear;
    clprune_conv2d *conv;
    TEST_OK(clprune_linear_create(context, &desc, &linear));
    TEST_OK(clprune_conv2d_create(context, &of_images, &conv));
    test_mat x = test_mat_make(BATCH * FEWER, COLS, 0, values),
             w = test_mat_make(OUT, COLS, 0, NULL);
    test_mat y = test_mat_make(BATCH * FEWER, OUT, 0, NULL);
    const clprune_mat none = CLPRUNE_NO_MAT, bad_y = clprune_mat_of(room.buffer, x.mat.rows, OUT);
    clprune_mat bad_x = clprune_mat_of(room.buffer, x.mat.rows, COLS);
    bad_x.offset = 1; /* else a DENSE store's own */
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_mat bad_w = clprune_mat_of(room.buffer, OUT, COLS);
    const clprune_mat bad_b = clprune_mat_of(room.buffer, 1, OUT);
    const clprune_extent image = {1, FEWER};
    TEST_FAILS(clprune_linear_forward(linear, BATCH, x.mat, w.mat, none, bad_y, saved, NULL), bad,
        "y overlaps saved");
    TEST_FAILS(clprune_linear_forward(linear, BATCH, x.mat, bad_w, none, y.mat, saved, NULL), bad,
        "w overlaps saved");
    TEST_FAILS(clprune_conv2d_forward(conv, BATCH, image, x.mat, w.mat, bad_b, y.mat, saved, NULL),
        bad, "b overlaps saved");
    TEST_FAILS(clprune_linear_forward(linear, BATCH, bad_x, w.mat, none, y.mat, saved, NULL), bad,
        "x overlaps saved");
    TEST_FAILS(clprune_conv2d_forward(conv, BATCH, image, x.mat, w.mat, none, bad_y, saved, NULL),
        bad, "y overlaps saved");
    TEST_FAILS(clprune_conv2d_forward(conv, BATCH, image, bad_x, w.mat, none, y.mat, saved, NULL),
        bad, "x overlaps saved");
    const clprune_saved_info info = clprune_saved_describe(saved);
    assert_int_equal(info.rows, ROWS);
    float *got = restored(saved, 0, BATCH);
    test_same_floats("kept", BATCH * ROWS, COLS, got, want, "%s", row->name);
    free_layers(linear, conv, saved);
    clprune_buffer_release(context, room.buffer);
}

static bool is_of_activations(const form_row *row)
{
    return row->keep.form == CLPRUNE_FORM_GELU_CODE || row->keep.form == CLPRUNE_FORM_MASK;
}

/* What does not restore x is no form of a layer's input, nor is a store of that form. */
static void no_layers(void **state)
{
    const form_row *row = *state;
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_mat none = CLPRUNE_NO_MAT;
    const clprune_extent image = {1, ROWS};
    clprune_linear_desc desc = {.in = COLS, .out = OUT, .keep = row->keep};
    clprune_conv2d_desc of_images = {.in = COLS, .out = OUT, .kernel = {1, 1}, .keep = row->keep};
    clprune_linear *linear = NULL;
    clprune_conv2d *conv = NULL;
    TEST_FAILS(clprune_linear_create(context, &desc, &linear), bad, "not restore a layer's input");
    TEST_FAILS(
        clprune_conv2d_create(context, &of_images, &conv), bad, clprune_form_name(row->keep.form));
    assert_null(linear);
    assert_null(conv);
    desc.keep = of_images.keep = (clprune_keep){0};
    TEST_OK(clprune_linear_create(context, &desc, &linear));
    TEST_OK(clprune_conv2d_create(context, &of_images, &conv));
    clprune_saved *saved = make_saved(row);
    float *values = test_new_normal(33, ELEMENTS);
    store_all(saved, values);
    test_mat x = test_mat_make(BATCH * ROWS, COLS, 0, values);
    test_mat w = test_mat_make(OUT, COLS, 0, NULL), y = test_mat_make(BATCH * ROWS, OUT, 0, NULL);
    TEST_FAILS(clprune_linear_forward(linear, BATCH, x.mat, w.mat, none, y.mat, saved, NULL), bad,
        "not restore");
    TEST_FAILS(clprune_linear_backward(
                   linear, BATCH, saved, y.mat, none, &(clprune_grads){.dw = w.mat}, NULL),
        bad, "not restore");
    TEST_FAILS(clprune_conv2d_forward(conv, BATCH, image, x.mat, w.mat, none, y.mat, saved, NULL),
        bad, "not restore");
    TEST_FAILS(clprune_conv2d_backward(
                   conv, BATCH, image, saved, y.mat, none, &(clprune_grads){.dw = w.mat}, NULL),
        bad, "not restore");
    free_layers(linear, conv, saved);
}

/* A layer adds to its gradients, takes any length, and refuses a store of another context. */
static void layer(void **state)
{
    const form_row *row = *state;
    clprune_context *context = test_context(), *other = NULL;
    for (int axis = 0; axis < 2; axis++) {
        const clprune_linear_desc desc = {axis ? ROWS : COLS, OUT, (clprune_axis)axis, row->keep};
        const size_t in = desc.in, y_rows = BATCH * (axis ? OUT : ROWS), y_cols = axis ? COLS : OUT;
        clprune_linear *linear = NULL;
        clprune_saved *saved = NULL;
        TEST_OK(clprune_linear_create(context, &desc, &linear));
        TEST_OK(clprune_linear_saved_create(linear, 2 * BATCH, axis ? COLS : ROWS, "x", &saved));
        float *x = test_new_normal(21, ELEMENTS), *dy = test_new_normal(22, y_rows * y_cols);
        float *w = test_new_normal(23, OUT * in), *old = test_new_normal(24, OUT * in);
        test_mat mx = test_mat_make(BATCH * ROWS, COLS, 1, x), my;
        test_mat mw = test_mat_make(OUT, in, 0, w), mdy = test_mat_make(y_rows, y_cols, 2, dy);
        test_mat dw = test_mat_make(OUT, in, 0, old), want = test_mat_make(OUT, in, 0, old);
        test_mat db = test_mat_make(1, OUT, 0, old), sums = test_mat_make(1, OUT, 0, NULL);
        const clprune_mat none = CLPRUNE_NO_MAT;
        my = test_mat_make(y_rows, y_cols, 0, NULL);
        TEST_OK(clprune_linear_forward(linear, BATCH, mx.mat, mw.mat, none, my.mat, saved, NULL));
        TEST_OK(clprune_linear_backward(linear, BATCH, saved, mdy.mat, mw.mat,
            &(clprune_grads){.dw = dw.mat, .db = db.mat, .beta = 0.5f}, NULL));
        TEST_OK((axis ? clprune_saved_product_nt : clprune_saved_product_tn)(
            saved, 0, BATCH, 0.5f, mdy.mat, want.mat, NULL));
        TEST_OK(clprune_linear_backward(
            linear, BATCH, saved, mdy.mat, mw.mat, &(clprune_grads){.db = sums.mat}, NULL));
        float *got = test_mat_get(&dw, "dw"), *product = test_mat_get(&want, "product");
        test_same_floats("dw", OUT, in, got, product, "%s, axis %d", row->name, axis);
        float *got_db = test_mat_get(&db, "db"), *sum = test_mat_get(&sums, "sums");
        for (size_t i = 0; i < OUT; i++) {
            const double expected = (double)sum[i] + 0.5 * (double)old[i];
            if (!(fabs((double)got_db[i] - expected) <= 1e-5 * (1 + fabs(expected))))
                fail_msg("%s: db[%zu] is %g, not %g", row->name, i, (double)got_db[i], expected);
        }
        /* Other lengths of the side that the layer does not know. */
        clprune_saved *small = NULL;
        TEST_OK(clprune_linear_saved_create(linear, 1, 3, "small", &small));
        TEST_FAILS(clprune_linear_forward(linear, BATCH, mx.mat, mw.mat, none, my.mat, small, NULL),
            CLPRUNE_INVALID_SIZE, "the store has");
        clprune_saved_destroy(small);
        TEST_OK(clprune_saved_reshape(saved, 1, 2, 2));
        TEST_FAILS(clprune_linear_backward(
                       linear, BATCH, saved, mdy.mat, mw.mat, &(clprune_grads){.dw = dw.mat}, NULL),
            CLPRUNE_INVALID_SIZE, "holds samples of 2 x 2");
        TEST_OK(clprune_linear_forward(linear, BATCH, mx.mat, mw.mat, none, my.mat, saved, NULL));
        assert_int_equal(clprune_saved_describe(saved).rows, ROWS);
        /* A store of a context of its own, on the same queue. */
        clprune_saved *foreign = NULL;
        TEST_OK(clprune_context_create(clprune_context_queue(context), NULL, &other));
        TEST_OK(clprune_saved_create(other, "f", &row->keep, BATCH, ROWS, COLS, &foreign));
        TEST_FAILS(
            clprune_linear_forward(linear, BATCH, mx.mat, mw.mat, none, my.mat, foreign, NULL),
            CLPRUNE_INVALID_ARGUMENT, "another context");
        TEST_FAILS(clprune_linear_backward(linear, BATCH, foreign, mdy.mat, mw.mat,
                       &(clprune_grads){.dw = dw.mat}, NULL),
            CLPRUNE_INVALID_ARGUMENT, "another context");
        clprune_saved_destroy(foreign);
        clprune_context_destroy(other);
        clprune_saved_destroy(saved);
        clprune_linear_destroy(linear);
    }
}

/* Samples without rows add nothing: dw = beta * dw. */
static void no_rows(void **state)
{
    const form_row *row = *state;
    clprune_context *context = test_context();
    const clprune_linear_desc desc = {.in = COLS, .out = OUT, .keep = row->keep};
    clprune_linear *linear = NULL;
    clprune_saved *saved = NULL;
    float *old = test_new_normal(34, OUT * COLS);
    test_mat x = test_mat_make(0, COLS, 0, NULL), y = test_mat_make(0, OUT, 0, NULL);
    test_mat w = test_mat_make(OUT, COLS, 0, old), dw = test_mat_make(OUT, COLS, 0, old);
    TEST_OK(clprune_linear_create(context, &desc, &linear));
    TEST_OK(clprune_linear_saved_create(linear, BATCH, 0, "x", &saved));
    TEST_OK(
        clprune_linear_forward(linear, BATCH, x.mat, w.mat, CLPRUNE_NO_MAT, y.mat, saved, NULL));
    TEST_OK(clprune_linear_backward(linear, BATCH, saved, y.mat, w.mat,
        &(clprune_grads){.dx = x.mat, .dw = dw.mat, .beta = 2}, NULL));
    float *got = test_mat_get(&dw, "dw");
    for (size_t i = 0; i < OUT * COLS; i++)
        assert_true(got[i] == 2 * old[i]);
    free_layers(linear, NULL, saved);
}

/* What is kept of x, where that can be said in a line. */
static void meaning(void **state)
{
    const form_row *row = *state;
    clprune_saved *saved = make_saved(row);
    float *x = test_new_normal(31, ELEMENTS);
    store_all(saved, x);
    float *got = restored(saved, 0, BATCH);
    for (size_t i = 0; i < ELEMENTS; i++) {
        double want = (double)x[i], error = 0;
        if (row->keep.form == CLPRUNE_FORM_MEAN) {
            want = 0;
            for (size_t r = 0; r < ROWS; r++)
                want += (double)x[(i / COLS / ROWS * ROWS + r) * COLS + i % COLS] / ROWS;
            error = 1e-6;
        } else if (row->keep.form == CLPRUNE_FORM_GELU_CODE) {
            const double h = want, pi = 3.14159265358979323846;
            want = (1 + erf(h / sqrt(2.0))) / 2 + h * exp(-h * h / 2) / sqrt(2 * pi);
            error = row->keep.bits == 2 ? 0.182 : 0.0028; /* clprune/gelu_code.h */
        } else if (row->keep.form == CLPRUNE_FORM_MASK) {
            want = want > 0;
        } else if (row->keep.form == CLPRUNE_FORM_PRUNED) {
            break; /* test_prune, test_bsr_values */
        } else if (row->keep.form == CLPRUNE_FORM_POOLED) {
            const size_t sample = i / COLS / ROWS * ROWS, row_in = i / COLS % ROWS;
            const size_t first = row_in / 5 * 5, end = first + 5 < ROWS ? first + 5 : ROWS;
            want = 0;
            for (size_t r = first; r < end; r++)
                want += (double)x[(sample + r) * COLS + i % COLS] / (double)(end - first);
            error = 1e-6;
        } else if (row->keep.form == CLPRUNE_FORM_QUANTISED) {
            error =
                row->keep.bits == 4 ? 0.5 : 0.02; /* a range below 7.4; test_quantise has more */
        }
        if (!(fabs((double)got[i] - want) <= error))
            fail_msg("%s: element %zu is %g, not %g", row->name, i, (double)got[i], want);
    }
    assert_string_not_equal(clprune_form_name(row->keep.form), "unknown");
    clprune_saved_destroy(saved);
}

/* A centred element is the mean of its column over its cell, or itself where its block was kept;
 * the blocks that are kept have the largest residuals. */
static void centred(void **state)
{
    const size_t cell = *(const size_t *)*state;
    enum { BLOCK = 4, PER_ROW = (COLS + BLOCK - 1) / BLOCK };
    const form_row row = {
        "centred", {.form = CLPRUNE_FORM_PRUNED,
                       .sparsity = 0.7f,
                       .block = {1, BLOCK},
                       .centre = cell == 0 ? CLPRUNE_CENTRE_SAMPLE : CLPRUNE_CENTRE_CELLS,
                       .cell = (unsigned)cell}};
    const size_t run = cell == 0 ? ROWS : cell;
    clprune_saved *saved = make_saved(&row);
    float *x = test_new_normal(31, ELEMENTS);
    for (size_t i = 0; i < ELEMENTS; i++) /* without centring, the last columns would be kept */
        x[i] += 10 * (float)(i % COLS + 1) + 5 * (float)(i / COLS % ROWS / run);
    store_all(saved, x);
    float *got = restored(saved, 0, BATCH);
    for (size_t n = 0; n < BATCH; n++) {
        size_t kept = 0;
        double smallest = INFINITY, largest = 0; /* kept, and dropped */
        for (size_t r = 0; r < ROWS; r++)
            for (size_t b = 0; b < PER_ROW; b++) {
                double norm = 0, from_x = 0, from_mean = 0;
                const size_t top = r / run * run, end = top + run < ROWS ? top + run : ROWS;
                for (size_t c = b * BLOCK; c < (b + 1) * BLOCK && c < COLS; c++) {
                    const size_t i = (n * ROWS + r) * COLS + c;
                    double mean = 0;
                    for (size_t k = top; k < end; k++)
                        mean += (double)x[(n * ROWS + k) * COLS + c] / (double)(end - top);
                    norm += pow((double)x[i] - mean, 2);
                    from_x = fmax(from_x, fabs((double)got[i] - (double)x[i]));
                    from_mean = fmax(from_mean, fabs((double)got[i] - mean));
                }
                const bool is_kept = from_x < from_mean;
                assert_true((is_kept ? from_x : from_mean) < 2e-4); /* of 400 */
                kept += is_kept;
                if (is_kept)
                    smallest = fmin(smallest, norm);
                else
                    largest = fmax(largest, norm);
            }
        assert_int_equal(kept, clprune_keep_count(ROWS * PER_ROW, 0.7f));
        assert_true(smallest > largest * 0.999);
    }
    clprune_saved_destroy(saved);
}

/* A quantised sample that no call could store has no size, so no store either. */
static void large_sample(void **state)
{
    (void)state;
    const clprune_keep keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 4};
    const size_t side = 65536;
    clprune_saved_sizes sizes;
    TEST_OK(clprune_saved_size_query(&keep, 2, side, side - 1, &sizes));
    assert_int_equal(clprune_saved_size_query(&keep, 2, side, side, &sizes), CLPRUNE_SIZE_OVERFLOW);
    assert_non_null(strstr(clprune_last_error(NULL), "65536 x 65536, expected fewer than 2^32"));
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_add(&list, meaning, &rows[i], "what is kept: %s", rows[i].name);
        test_add(&list, parts, &rows[i], "parts: %s", rows[i].name);
        test_add(&list, products, &rows[i], "products: %s", rows[i].name);
        if (is_of_activations(&rows[i])) {
            test_add(&list, chunks, &rows[i], "chunks: %s", rows[i].name);
            test_add(&list, no_layers, &rows[i], "no layers: %s", rows[i].name);
        } else {
            test_add(&list, layer, &rows[i], "layers: %s", rows[i].name);
            test_add(&list, refused, &rows[i], "refused: %s", rows[i].name);
            test_add(&list, no_rows, &rows[i], "no rows: %s", rows[i].name);
        }
        test_add(&list, lent, &rows[i], "memory of the caller's: %s", rows[i].name);
        test_add(&list, shapes, &rows[i], "shapes: %s", rows[i].name);
        if (is_guarded(&rows[i]))
            test_add(&list, never_stored, &rows[i], "never stored: %s", rows[i].name);
    }
    static const size_t cells[] = {0, 5};
    test_add(&list, large_sample, NULL, "a quantised sample of 2^32 elements");
    test_add(&list, centred, &cells[0], "centred");
    test_add(&list, centred, &cells[1], "centred by cells");
    return test_run_on_devices("forms", &list);
}
