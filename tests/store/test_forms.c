/* Properties of every form of kept tensors: parts of a batch, memory of the caller, other shapes,
 * both products with any beta, refusals.
 *
 * Samples that were never stored are refused. A refused forward pass leaves the store as it was. */
#include "ref/gelu_code_ref.h"
#include "ref/gemm_ref.h"
#include "support/test_store.h"

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
    {"quantised, rotated",
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 4, .group = 32, .rotate = true}},
    {"bf16", {.form = CLPRUNE_FORM_QUANTISED, .bits = 16}},
    {"pooled", {.form = CLPRUNE_FORM_POOLED, .cell = 5}},
};

static clprune_saved *make_saved(const form_row *row)
{
    return test_new_saved(test_context(), row->keep, BATCH, ROWS, COLS);
}

/* A store of x, or of NaNs. */
static clprune_saved *make_filled(const form_row *row, const float *x)
{
    clprune_saved *saved = make_saved(row);
    store_all(saved, x);
    return saved;
}

static void parts(void **state)
{
    const form_row *row = *state;
    check_parts(row->keep, BATCH, ROWS, COLS, row->name);
}

static void products(void **state)
{
    const form_row *row = *state;
    check_products(make_filled(row, test_new_normal(13, ELEMENTS)), OUT, 1, row->name);
}

/* Samples of 3.4 MB each, two of which fit the scratch of a chunk: a call for three samples gives
 * the bits of two calls. For forms that store or multiply in chunks. */
static void chunks(void **state)
{
    enum { LONG = 5, WIDE = 170000, FEW = 2 };
    const form_row *row = *state;
    clprune_saved *whole = test_new_saved(test_context(), row->keep, BATCH, LONG, WIDE);
    clprune_saved *apart = test_new_saved(test_context(), row->keep, BATCH, LONG, WIDE);
    float *x = test_new_normal(25, (size_t)BATCH * LONG * WIDE);
    test_mat mx = test_mat_make(BATCH * LONG, WIDE, 0, x);
    TEST_OK(clprune_saved_store(whole, 0, 3, mx.mat, NULL));
    TEST_OK(clprune_saved_store(apart, 0, 2, clprune_mat_rows(mx.mat, 0, 2 * LONG), NULL));
    TEST_OK(clprune_saved_store(apart, 2, 1, clprune_mat_rows(mx.mat, 2 * LONG, LONG), NULL));
    same_kept(whole, apart, row->name);
    for (int kind = TN; kind <= NT; kind++) {
        const bspmm_ref_sizes sizes = {BATCH, LONG, WIDE, FEW};
        operands o = operands_make((product)kind, sizes, 26, 0, 0);
        operands_reset(&o, 0.5f);
        TEST_EVENT(store_product(whole, &o, 0, 3, 0.5f, &event));
        float *once = test_mat_get(&o.out, "dw");
        operands_reset(&o, 0.5f);
        TEST_OK(store_product(whole, &o, 0, 2, 0.5f, NULL));
        TEST_OK(store_product(whole, &o, 2, 1, 1, NULL));
        test_same_floats("dw", o.out_rows, o.out_cols, once, test_mat_get(&o.out, "dw"), "%s, %s",
            product_names[kind], row->name);
    }
}

/* The same bits in the caller's memory, and nothing around it is touched. */
static void lent(void **state)
{
    const form_row *row = *state;
    clprune_context *context = test_context();
    clprune_saved_sizes sizes;
    TEST_OK(clprune_saved_size_query(&row->keep, BATCH, ROWS, COLS, &sizes));
    assert_int_equal(sizes.bytes % CLPRUNE_SAVED_ALIGN, 0);
    assert_int_equal(sizes.dense_bytes, ELEMENTS * sizeof(float));
    assert_true(sizes.values_bytes + sizes.index_bytes <= sizes.bytes);
    test_buf region = test_buf_make(sizes.bytes, NULL);
    const cl_mem buffer = region.whole;
    const uint64_t live = test_live(context, CLPRUNE_MEMORY_ACTIVATIONS);
    clprune_saved *saved = NULL, *own = make_saved(row);
    TEST_OK(clprune_saved_create_in(
        context, &row->keep, BATCH, ROWS, COLS, buffer, region.front, sizes.bytes, &saved));
    clprune_saved_set_seed(saved, 9);
    clprune_saved_set_seed(own, 9);
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_ACTIVATIONS), live + sizes.bytes);
    float *x = test_new_normal(17, ELEMENTS);
    store_all(saved, x);
    store_all(own, x);
    same_kept(saved, own, row->name);
    const clprune_saved_info info = clprune_saved_describe(saved);
    assert_ptr_equal(info.buffer, buffer);
    assert_int_equal(info.offset, region.front);
    assert_int_equal(info.bytes, sizes.bytes);
    assert_memory_equal(&info.sizes, &sizes, sizeof sizes);
    clprune_saved_destroy(saved);
    (void)test_buf_get(&region, row->name);
}

/* A store takes other shapes that fit its bytes, as a store made for them would. */
static void shapes(void **state)
{
    const form_row *row = *state;
    clprune_saved *saved = make_saved(row);
    static const size_t others[][3] = {{1, 20, 41}, {2, 7, 33}, {BATCH, ROWS, COLS}, {0, 5, 5}};
    float *x = test_new_normal(19, ELEMENTS);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        const size_t *o = others[i];
        clprune_saved *fresh = test_new_saved(test_context(), row->keep, o[0], o[1], o[2]);
        TEST_OK(clprune_saved_reshape(saved, o[0], o[1], o[2]));
        store_all(saved, x);
        store_all(fresh, x);
        same_kept(
            saved, fresh, test_text("%s, %zu samples of %zu x %zu", row->name, o[0], o[1], o[2]));
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
}

/* Forms that are matrices may have been written as such. */
static bool is_guarded(const form_row *row)
{
    const clprune_form f = row->keep.form;
    return f == CLPRUNE_FORM_PRUNED || f == CLPRUNE_FORM_MEAN || f == CLPRUNE_FORM_QUANTISED ||
           f == CLPRUNE_FORM_POOLED;
}

/* Layers that keep their input in the form. */
static clprune_linear *make_linear(const form_row *row)
{
    return test_new_linear(
        test_context(), (clprune_linear_desc){.in = COLS, .out = OUT, .keep = row->keep});
}

static clprune_conv2d *make_conv(const form_row *row)
{
    return test_new_conv2d(test_context(),
        (clprune_conv2d_desc){.in = COLS, .out = OUT, .kernel = {1, 1}, .keep = row->keep});
}

/* Samples that were not stored cannot be read: the index of a pruned one would lead anywhere. */
static void never_stored(void **state)
{
    const form_row *row = *state;
    clprune_saved *saved = make_saved(row);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const char *first = "sample 0 of saved";
    const clprune_mat none = CLPRUNE_NO_MAT, x = test_mat_make(BATCH * ROWS, COLS, 0, NULL).mat;
    const clprune_mat y = clprune_mat_rows(x, 0, ROWS);
    const clprune_mat dy = test_mat_make(BATCH * ROWS, OUT, 0, NULL).mat;
    const clprune_mat dw = test_mat_make(OUT, COLS, 0, NULL).mat;
    const clprune_mat across = test_mat_make(BATCH * OUT, COLS, 0, NULL).mat;
    const clprune_mat over = test_mat_make(OUT, ROWS, 0, NULL).mat;
    clprune_linear *linear = make_linear(row);
    for (int reshaped = 0; reshaped < 2; reshaped++) {
        TEST_FAILS(clprune_saved_restore(saved, 0, BATCH, x, NULL), bad, first);
        TEST_FAILS(clprune_saved_product_tn(saved, 0, BATCH, 0, dy, dw, NULL), bad, first);
        TEST_FAILS(clprune_saved_product_nt(saved, 0, BATCH, 0, across, over, NULL), bad, first);
        TEST_FAILS(clprune_linear_backward(
                       linear, BATCH, saved, dy, none, &(clprune_grads){.dw = dw}, NULL),
            bad, first);
        TEST_FAILS(clprune_activation_backward(test_context(), CLPRUNE_ACTIVATION_RELU, 0, BATCH,
                       saved, x, &(clprune_grads){.dx = x}, NULL),
            bad, first);
        TEST_OK(clprune_saved_restore(saved, 1, 0, clprune_mat_rows(x, 0, 0), NULL));
        store_all(saved, NULL);
        TEST_OK(clprune_saved_restore(saved, 0, BATCH, x, NULL));
        TEST_OK(clprune_saved_reshape(saved, BATCH, ROWS, COLS));
    }
    TEST_OK(clprune_saved_store(saved, 1, 1, y, NULL));
    TEST_OK(clprune_saved_restore(saved, 1, 1, y, NULL));
    TEST_FAILS(clprune_saved_restore(saved, 0, BATCH, x, NULL), bad, first);
    TEST_OK(clprune_saved_store(saved, 0, 1, y, NULL));
    TEST_FAILS(clprune_saved_restore(saved, 0, BATCH, x, NULL), bad, "sample 2 of saved");
}

/* With whole units of 16 columns codes of 16 bits are a matrix, which the caller may write. */
static void never_stored_bf16(NO_ROW)
{
    const clprune_keep keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 16};
    for (size_t cols = 15; cols <= 17; cols++) {
        clprune_saved *saved = test_new_saved(test_context(), keep, 1, 2, cols);
        const clprune_mat x = test_mat_make(2, cols, 0, NULL).mat;
        assert_int_equal(clprune_saved_dense(saved, 0, 1).rows, cols == 16 ? 2 : 0);
        assert_int_equal(clprune_saved_restore(saved, 0, 1, x, NULL),
            cols == 16 ? CLPRUNE_SUCCESS : CLPRUNE_INVALID_ARGUMENT);
    }
}

/* A forward pass that is refused leaves the store as it was, though x has another shape. */
static void refused(void **state)
{
    const form_row *row = *state;
    clprune_context *context = test_context();
    enum { ROOM = 4 * ELEMENTS, FEWER = ROWS - 5, REGION = ROOM * sizeof(float) / 64 * 64 };
    const cl_mem room = test_new_mat(context, 1, ROOM).buffer;
    clprune_saved *saved = NULL;
    TEST_OK(
        clprune_saved_create_in(context, &row->keep, BATCH, ROWS, COLS, room, 0, REGION, &saved));
    (void)test_own_saved(context, saved);
    float *values = test_new_normal(33, ELEMENTS);
    store_all(saved, values);
    float *want = restored(saved, 0, BATCH);
    clprune_linear *linear = make_linear(row);
    clprune_conv2d *conv = make_conv(row);
    const clprune_extent image = {1, FEWER};
    const clprune_mat none = CLPRUNE_NO_MAT;
    const clprune_mat x = test_mat_make(BATCH * FEWER, COLS, 0, values).mat;
    const clprune_mat w = test_mat_make(OUT, COLS, 0, NULL).mat;
    const clprune_mat y = test_mat_make(BATCH * FEWER, OUT, 0, NULL).mat;
    const clprune_mat bad_x = {room, 1, x.rows, COLS, COLS}; /* at 0 it is a DENSE store's own */
    const clprune_mat bad_w = clprune_mat_of(room, OUT, COLS);
    const clprune_mat bad_b = clprune_mat_of(room, 1, OUT);
    const clprune_mat bad_y = clprune_mat_of(room, x.rows, OUT);
    const struct {
        bool is_conv;
        clprune_mat x, w, b, y;
        const char *text;
    } calls[] = {
        {false, x, w, none, bad_y, "y overlaps saved"},
        {false, x, bad_w, none, y, "w overlaps saved"},
        {true, x, w, bad_b, y, "b overlaps saved"},
        {false, bad_x, w, none, y, "x overlaps saved"},
        {true, x, w, none, bad_y, "y overlaps saved"},
        {true, bad_x, w, none, y, "x overlaps saved"},
    };
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        TEST_FAILS(calls[i].is_conv ? clprune_conv2d_forward(conv, BATCH, image, calls[i].x,
                                          calls[i].w, calls[i].b, calls[i].y, saved, NULL)
                                    : clprune_linear_forward(linear, BATCH, calls[i].x, calls[i].w,
                                          calls[i].b, calls[i].y, saved, NULL),
            CLPRUNE_INVALID_ARGUMENT, calls[i].text);
    assert_int_equal(clprune_saved_describe(saved).rows, ROWS);
    test_same_floats("kept", BATCH * ROWS, COLS, restored(saved, 0, BATCH), want, "%s", row->name);
}

static bool is_of_activations(const form_row *row)
{
    return row->keep.form == CLPRUNE_FORM_GELU_CODE || row->keep.form == CLPRUNE_FORM_MASK;
}

/* What does not restore x is no form of a layer's input, nor is a store of that form. */
static void no_layers(void **state)
{
    const form_row *row = *state;
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_mat none = CLPRUNE_NO_MAT;
    const clprune_extent image = {1, ROWS};
    const clprune_linear_desc desc = {.in = COLS, .out = OUT, .keep = row->keep};
    const clprune_conv2d_desc of_images = {
        .in = COLS, .out = OUT, .kernel = {1, 1}, .keep = row->keep};
    clprune_linear *linear = NULL;
    clprune_conv2d *conv = NULL;
    TEST_FAILS(
        clprune_linear_create(test_context(), &desc, &linear), bad, "not restore a layer's input");
    TEST_FAILS(clprune_conv2d_create(test_context(), &of_images, &conv), bad,
        clprune_form_name(row->keep.form));
    assert_null(linear);
    assert_null(conv);
    linear = make_linear(&rows[0]);
    conv = make_conv(&rows[0]);
    float *values = test_new_normal(33, ELEMENTS);
    clprune_saved *saved = make_filled(row, values);
    const clprune_mat x = test_mat_make(BATCH * ROWS, COLS, 0, values).mat;
    const clprune_mat w = test_mat_make(OUT, COLS, 0, NULL).mat;
    const clprune_mat y = test_mat_make(BATCH * ROWS, OUT, 0, NULL).mat;
    const char *text = "not restore";
    TEST_FAILS(clprune_linear_forward(linear, BATCH, x, w, none, y, saved, NULL), bad, text);
    TEST_FAILS(
        clprune_linear_backward(linear, BATCH, saved, y, none, &(clprune_grads){.dw = w}, NULL),
        bad, text);
    TEST_FAILS(clprune_conv2d_forward(conv, BATCH, image, x, w, none, y, saved, NULL), bad, text);
    TEST_FAILS(clprune_conv2d_backward(
                   conv, BATCH, image, saved, y, none, &(clprune_grads){.dw = w}, NULL),
        bad, text);
}

/* A layer adds to its gradients, takes any length, and refuses a store of another context. */
static void layer(void **state)
{
    const form_row *row = *state;
    clprune_context *context = test_context();
    const clprune_mat none = CLPRUNE_NO_MAT;
    for (int axis = 0; axis < 2; axis++) {
        const clprune_linear_desc desc = {axis ? ROWS : COLS, OUT, (clprune_axis)axis, row->keep};
        const bspmm_ref_sizes sizes = {BATCH, ROWS, COLS, OUT};
        operands o = operands_make(axis ? NT : TN, sizes, 22, 2, 0);
        const clprune_mat dy = o.din.mat;
        clprune_linear *linear = test_new_linear(context, desc);
        clprune_saved *saved =
            test_new_linear_saved(context, linear, 2 * BATCH, axis ? COLS : ROWS);
        const clprune_mat x =
            test_mat_make(BATCH * ROWS, COLS, 1, test_new_normal(21, ELEMENTS)).mat;
        const clprune_mat w =
            test_mat_make(OUT, desc.in, 0, test_new_normal(24, OUT * desc.in)).mat;
        const clprune_mat y = test_mat_make(o.in_rows, o.in_cols, 0, NULL).mat;
        test_mat dw = test_mat_make(OUT, desc.in, 0, o.old);
        test_mat db = test_mat_make(1, OUT, 0, o.old), sums = test_mat_make(1, OUT, 0, NULL);
        TEST_OK(clprune_linear_forward(linear, BATCH, x, w, none, y, saved, NULL));
        TEST_OK(clprune_linear_backward(linear, BATCH, saved, dy, w,
            &(clprune_grads){.dw = dw.mat, .db = db.mat, .beta = 0.5f}, NULL));
        operands_reset(&o, 0.5f);
        TEST_OK(store_product(saved, &o, 0, BATCH, 0.5f, NULL));
        TEST_OK(clprune_linear_backward(
            linear, BATCH, saved, dy, w, &(clprune_grads){.db = sums.mat}, NULL));
        test_same_floats("dw", OUT, desc.in, test_mat_get(&dw, "dw"),
            test_mat_get(&o.out, "product"), "%s, axis %d", row->name, axis);
        float *got_db = test_mat_get(&db, "db"), *sum = test_mat_get(&sums, "sums");
        for (size_t i = 0; i < OUT; i++) {
            const double expected = (double)sum[i] + 0.5 * (double)o.old[i];
            if (!(fabs((double)got_db[i] - expected) <= 1e-5 * (1 + fabs(expected))))
                fail_msg("%s: db[%zu] is %g, not %g", row->name, i, (double)got_db[i], expected);
        }
        /* Other lengths of the side that the layer does not know. */
        clprune_saved *small = test_new_linear_saved(context, linear, 1, 3);
        TEST_FAILS(clprune_linear_forward(linear, BATCH, x, w, none, y, small, NULL),
            CLPRUNE_INVALID_SIZE, "the store has");
        TEST_OK(clprune_saved_reshape(saved, 1, 2, 2));
        TEST_FAILS(clprune_linear_backward(
                       linear, BATCH, saved, dy, w, &(clprune_grads){.dw = dw.mat}, NULL),
            CLPRUNE_INVALID_SIZE, "holds samples of 2 x 2");
        TEST_OK(clprune_linear_forward(linear, BATCH, x, w, none, y, saved, NULL));
        assert_int_equal(clprune_saved_describe(saved).rows, ROWS);
        /* A store of a context of its own, on the same queue. */
        clprune_context *other = test_open_on(clprune_context_queue(context), NULL);
        clprune_saved *foreign = test_new_saved(other, row->keep, BATCH, ROWS, COLS);
        TEST_FAILS(clprune_linear_forward(linear, BATCH, x, w, none, y, foreign, NULL),
            CLPRUNE_INVALID_ARGUMENT, "another context");
        TEST_FAILS(clprune_linear_backward(
                       linear, BATCH, foreign, dy, w, &(clprune_grads){.dw = dw.mat}, NULL),
            CLPRUNE_INVALID_ARGUMENT, "another context");
    }
}

/* Samples without rows add nothing: dw = beta * dw. */
static void no_rows(void **state)
{
    clprune_linear *linear = make_linear(*state);
    clprune_saved *saved = test_new_linear_saved(test_context(), linear, BATCH, 0);
    const clprune_mat none = CLPRUNE_NO_MAT;
    float *old = test_new_normal(34, OUT * COLS);
    test_mat x = test_mat_make(0, COLS, 0, NULL), y = test_mat_make(0, OUT, 0, NULL);
    test_mat w = test_mat_make(OUT, COLS, 0, old), dw = test_mat_make(OUT, COLS, 0, old);
    TEST_OK(clprune_linear_forward(linear, BATCH, x.mat, w.mat, none, y.mat, saved, NULL));
    TEST_OK(clprune_linear_backward(linear, BATCH, saved, y.mat, w.mat,
        &(clprune_grads){.dx = x.mat, .dw = dw.mat, .beta = 2}, NULL));
    float *got = test_mat_get(&dw, "dw");
    for (size_t i = 0; i < OUT * COLS; i++)
        assert_true(got[i] == 2 * old[i]);
}

/* The mean of element i's column over its cell, a run of `cell` rows. */
static double cell_mean(const float *x, size_t i, size_t cell)
{
    const size_t r = i / COLS % ROWS, top = r / cell * cell;
    const size_t end = top + cell < ROWS ? top + cell : ROWS;
    double mean = 0;
    for (size_t k = top; k < end; k++)
        mean += (double)x[i - r * COLS + k * COLS] / (double)(end - top);
    return mean;
}

/* What is kept of x, where that can be said in a line. */
static void meaning(void **state)
{
    const form_row *row = *state;
    float *x = test_new_normal(31, ELEMENTS);
    float *got = restored(make_filled(row, x), 0, BATCH);
    for (size_t i = 0; i < ELEMENTS; i++) {
        double want = (double)x[i], error = 0;
        if (row->keep.form == CLPRUNE_FORM_MEAN || row->keep.form == CLPRUNE_FORM_POOLED) {
            want = cell_mean(x, i, row->keep.form == CLPRUNE_FORM_MEAN ? ROWS : row->keep.cell);
            error = 1e-6;
        } else if (row->keep.form == CLPRUNE_FORM_GELU_CODE) {
            want = gelu_code_ref_slope(want);
            error = row->keep.bits == 2 ? 0.182 : 0.0028; /* clprune/activation.h */
        } else if (row->keep.form == CLPRUNE_FORM_MASK) {
            want = want > 0;
        } else if (row->keep.form == CLPRUNE_FORM_PRUNED) {
            break; /* test_prune, test_bsr_values */
        } else if (row->keep.form == CLPRUNE_FORM_QUANTISED && row->keep.bits == 16) {
            want = (double)gemm_ref_bf16(x[i]);
        } else if (row->keep.form == CLPRUNE_FORM_QUANTISED) {
            error =
                row->keep.bits == 4 ? 0.5 : 0.02; /* a range below 7.4; test_quantise has more */
        }
        if (!(fabs((double)got[i] - want) <= error))
            fail_msg("%s: element %zu is %g, not %g", row->name, i, (double)got[i], want);
    }
    assert_string_not_equal(clprune_form_name(row->keep.form), "unknown");
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
    float *x = test_new_normal(31, ELEMENTS);
    for (size_t i = 0; i < ELEMENTS; i++) /* without centring, the last columns would be kept */
        x[i] += 10 * (float)(i % COLS + 1) + 5 * (float)(i / COLS % ROWS / run);
    float *got = restored(make_filled(&row, x), 0, BATCH);
    for (size_t n = 0; n < BATCH; n++) {
        size_t kept = 0;
        double smallest = INFINITY, largest = 0; /* kept, and dropped */
        for (size_t r = 0; r < ROWS; r++)
            for (size_t b = 0; b < PER_ROW; b++) {
                double norm = 0, from_x = 0, from_mean = 0;
                for (size_t c = b * BLOCK; c < (b + 1) * BLOCK && c < COLS; c++) {
                    const size_t i = (n * ROWS + r) * COLS + c;
                    const double mean = cell_mean(x, i, run);
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
}

/* A quantised sample that no call could store has no size, so no store either. */
static void large_sample(NO_ROW)
{
    const clprune_keep keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 4};
    const size_t side = 65536;
    clprune_saved_sizes sizes;
    TEST_OK(clprune_saved_size_query(&keep, 2, side, side - 1, &sizes));
    TEST_FAILS_IN(NULL, clprune_saved_size_query(&keep, 2, side, side, &sizes),
        CLPRUNE_SIZE_OVERFLOW, "65536 x 65536, expected fewer than 2^32");
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_add(&list, meaning, &rows[i], "what is kept: %s", rows[i].name);
        test_add(&list, parts, &rows[i], "parts: %s", rows[i].name);
        if (!rows[i].keep.rotate) /* test_rotate bounds those relative to the blocks */
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
    test_add(&list, never_stored_bf16, NULL, "never stored: columns of bf16");
    static const size_t cells[] = {0, 5};
    test_add(&list, large_sample, NULL, "a quantised sample of 2^32 elements");
    test_add(&list, centred, &cells[0], "centred");
    test_add(&list, centred, &cells[1], "centred by cells");
    return test_run_on_devices("forms", &list);
}
