/* The linear layer along both axes: against the reference, against dense products bit for bit,
 * and by finite differences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/bsr_ref.h"
#include "ref/linear_ref.h"
#include "ref/prune_ref.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_rng.h"

/* Both axes in one view: `batch` samples whose x is in_rows x in_cols and whose y is out_rows x
 * out_cols. `tokens`: the axis of rows. */
typedef struct layer_row {
    const char *name;
    bool tokens;
    size_t batch;
    size_t rows; /* the other side of a sample: its rows, or its features */
    size_t in, out;
    clprune_block block;
    uint64_t tenths; /* of sparsity */
    bool bias;
} layer_row;

static const layer_row rows[] = {
    {"linear, dense", false, 3, 10, 33, 20, {0, 0}, 0, true},
    {"linear, 1x16, 0.7", false, 3, 10, 48, 20, {0, 0}, 7, true},
    {"linear, 1x16 ragged, 0.5, no bias", false, 2, 7, 41, 9, {1, 16}, 5, false},
    {"linear, 3x7, 0.5", false, 2, 10, 33, 17, {3, 7}, 5, true},
    {"linear, 1x16, 1", false, 2, 5, 32, 6, {0, 0}, 10, true},
    {"linear, deep and wide", false, 1, 3, 800, 70, {0, 0}, 5, true},
    {"linear, one row", false, 1, 1, 16, 1, {0, 0}, 5, true},
    {"linear, samples of one row", false, 35, 1, 75, 20, {0, 0}, 7, true},
    {"linear, many samples of one row", false, 1030, 1, 40, 9, {1, 4}, 5, true},
    {"linear, samples of one block row", false, 6, 3, 33, 17, {3, 7}, 5, true},
    {"linear, samples of part of a block row", false, 6, 2, 33, 17, {3, 7}, 5, true},
    {"linear, no samples", false, 0, 10, 33, 20, {0, 0}, 7, true},
    {"token, dense", true, 3, 33, 10, 12, {0, 0}, 0, true},
    {"token, 1x16, 0.7", true, 3, 48, 20, 20, {0, 0}, 7, true},
    {"token, 1x16 ragged, 0.5, no bias", true, 2, 41, 7, 9, {1, 16}, 5, false},
    {"token, 3x7, 0.5", true, 2, 33, 10, 17, {3, 7}, 5, true},
    {"token, 1x16, 1", true, 2, 32, 5, 6, {0, 0}, 10, true},
    {"token, many outputs", true, 2, 20, 6, 300, {0, 0}, 5, true},
    {"token, no samples", true, 0, 33, 10, 12, {0, 0}, 7, true},
};

static clprune_linear *make_layer(const layer_row *r, clprune_saved **saved)
{
    clprune_linear *made;
    const float sparsity = (float)((double)r->tenths / 10);
    const clprune_keep pruned = {
        .form = CLPRUNE_FORM_PRUNED, .block = r->block, .sparsity = sparsity};
    const clprune_linear_desc d = {.in = r->in,
        .out = r->out,
        .axis = r->tokens ? CLPRUNE_AXIS_ROWS : CLPRUNE_AXIS_FEATURES,
        .keep = r->tenths > 0 ? pruned : (clprune_keep){.form = CLPRUNE_FORM_DENSE}};
    TEST_OK(clprune_linear_create(test_context(), &d, &made));
    TEST_OK(clprune_linear_saved_create(made, r->batch, r->rows, "x", saved));
    return made;
}

/* Sizes of one sample's x and of y. */
typedef struct sizes {
    size_t x_rows, x_cols, y_rows, y_cols;
} sizes;

static sizes sizes_of(const layer_row *r)
{
    if (r->tokens)
        return (sizes){r->in, r->rows, r->out, r->rows};
    return (sizes){r->rows, r->in, r->rows, r->out};
}

/* x with the blocks pruned that the layer must prune. */
static float *pruned(const layer_row *r, const float *x)
{
    const sizes s = sizes_of(r);
    const size_t br = r->block.rows > 0 ? r->block.rows : 1;
    const size_t bc = r->block.cols > 0 ? r->block.cols : 16;
    bsr_ref ref = bsr_ref_make(r->batch, s.x_rows, s.x_cols, br, bc, 0);
    const size_t keep = bsr_ref_keep_count(ref.blocks, r->tenths, 10);
    double *scores = prune_ref_scores(PRUNE_REF_L2, r->batch, s.x_rows, s.x_cols, br, bc, x);
    float *rounded = test_new_normal(0, r->batch * ref.blocks);
    unsigned char *mask = test_alloc(r->batch * ref.blocks + 1);
    for (size_t i = 0; i < r->batch * ref.blocks; i++)
        rounded[i] = (float)scores[i];
    for (size_t n = 0; n < r->batch; n++)
        prune_ref_select(ref.blocks, keep, rounded + n * ref.blocks, mask + n * ref.blocks);
    float *kept = bsr_ref_masked(&ref, x, mask);
    return kept;
}

static void check(const char *what, const test_mat *m, gemm_ref ref, const layer_row *r)
{
    float *got = test_mat_get(m, what);
    test_close(what, ref.m, ref.n, got, ref.want, ref.bound, "%s", r->name);
}

static void against_reference(void **state)
{
    const layer_row *r = *state;
    const sizes s = sizes_of(r);
    const size_t m = r->batch * r->rows; /* of the linear layer */
    float *x = test_new_normal(71, r->batch * s.x_rows * s.x_cols);
    float *w = test_new_normal(72, r->out * r->in), *b = test_new_normal(73, r->out);
    float *dy = test_new_normal(74, r->batch * s.y_rows * s.y_cols), *kept = pruned(r, x);
    test_mat mx = test_mat_make(r->batch * s.x_rows, s.x_cols, 1, x);
    test_mat mw = test_mat_make(r->out, r->in, 2, w), mb = test_mat_make(1, r->out, 0, b);
    test_mat mdy = test_mat_make(r->batch * s.y_rows, s.y_cols, 3, dy);
    test_mat my = test_mat_make(r->batch * s.y_rows, s.y_cols, 2, NULL);
    test_mat mdx = test_mat_make(r->batch * s.x_rows, s.x_cols, 2, NULL);
    test_mat mdw = test_mat_make(r->out, r->in, 1, NULL), mdb = test_mat_make(1, r->out, 0, NULL);
    clprune_saved *saved = NULL;
    clprune_linear *layer = make_layer(r, &saved);
    cl_event event = NULL;
    const clprune_mat bias = r->bias ? mb.mat : CLPRUNE_NO_MAT;
    TEST_OK(clprune_linear_forward(layer, r->batch, mx.mat, mw.mat, bias, my.mat, saved, &event));
    assert_non_null(event);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
    test_mat_unchanged(&mx, "x");
    TEST_OK(clprune_mat_fill(test_context(), NAN, mx.mat, NULL)); /* x is long gone */
    event = NULL;
    TEST_OK(clprune_linear_backward(
        layer, r->batch, 0.0f, saved, mdy.mat, mw.mat, mdx.mat, mdw.mat, mdb.mat, &event));
    assert_non_null(event);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);

    const float *bias_values = r->bias ? b : NULL;
    if (r->tokens) {
        const size_t d = r->rows;
        check("y", &my, token_linear_ref_forward(r->batch, r->in, r->out, d, x, w, bias_values), r);
        check("dx", &mdx, token_linear_ref_dx(r->batch, r->in, r->out, d, dy, w), r);
        check("dw", &mdw, token_linear_ref_dw(r->batch, r->in, r->out, d, dy, kept), r);
        check("db", &mdb, token_linear_ref_db(r->batch, r->out, d, dy), r);
    } else {
        check("y", &my, linear_ref_forward(m, r->in, r->out, x, w, bias_values), r);
        check("dx", &mdx, linear_ref_dx(m, r->in, r->out, dy, w), r);
        check("dw", &mdw, linear_ref_dw(m, r->in, r->out, dy, kept), r);
        check("db", &mdb, linear_ref_db(m, r->out, dy), r);
    }
    test_mat_unchanged(&mw, "w");
    test_mat_unchanged(&mb, "b");
    test_mat_unchanged(&mdy, "dy");
    clprune_saved_destroy(saved);
    clprune_linear_destroy(layer);
}

/* Each output of the backward pass by itself has the bits it has together with the others. */
static void skipped_outputs(void **state)
{
    const layer_row *r = *state;
    const sizes s = sizes_of(r);
    float *x = test_new_normal(81, r->batch * s.x_rows * s.x_cols);
    float *w = test_new_normal(82, r->out * r->in);
    float *dy = test_new_normal(83, r->batch * s.y_rows * s.y_cols), *full[3] = {NULL, NULL, NULL};
    test_mat mx = test_mat_make(r->batch * s.x_rows, s.x_cols, 0, x);
    test_mat mw = test_mat_make(r->out, r->in, 0, w);
    test_mat mdy = test_mat_make(r->batch * s.y_rows, s.y_cols, 0, dy);
    test_mat my = test_mat_make(r->batch * s.y_rows, s.y_cols, 0, NULL);
    clprune_saved *saved = NULL;
    clprune_linear *layer = make_layer(r, &saved);
    TEST_OK(clprune_linear_forward(
        layer, r->batch, mx.mat, mw.mat, CLPRUNE_NO_MAT, my.mat, saved, NULL));
    for (int wanted = 7; wanted >= 0; wanted--) {
        static const char *const names[] = {"dx", "dw", "db"};
        test_mat out[3] = {test_mat_make(r->batch * s.x_rows, s.x_cols, 0, NULL),
            test_mat_make(r->out, r->in, 0, NULL), test_mat_make(1, r->out, 0, NULL)};
        clprune_mat given[3];
        for (int i = 0; i < 3; i++)
            given[i] = wanted & 1 << i ? out[i].mat : CLPRUNE_NO_MAT;
        cl_event event = NULL;
        /* What a skipped output alone needs may be missing: w for dx, the kept x for dw. */
        TEST_OK(clprune_linear_backward(layer, r->batch, 0.0f, wanted & 2 ? saved : NULL, mdy.mat,
            wanted & 1 ? mw.mat : CLPRUNE_NO_MAT, given[0], given[1], given[2], &event));
        assert_non_null(event);
        assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
        for (int i = 0; i < 3; i++) {
            float *got = test_mat_get(&out[i], names[i]);
            if (wanted == 7)
                full[i] = got;
            else if (wanted & 1 << i)
                test_same_floats(names[i], out[i].mat.rows, out[i].mat.cols, got, full[i],
                    "%s, outputs %d", r->name, wanted);
            else
                test_mat_unchanged(&out[i], names[i]);
        }
    }
    clprune_saved_destroy(saved);
    clprune_linear_destroy(layer);
}

/* Sparsity 0: y and dw are those of dense products, bit for bit. */
static void zero_sparsity_is_dense(void **state)
{
    (void)state;
    const layer_row r = {"linear", false, 3, 49, 64, 80, {0, 0}, 0, false};
    const size_t m = r.batch * r.rows;
    float *x = test_new_normal(91, m * r.in), *w = test_new_normal(92, r.out * r.in);
    float *dy = test_new_normal(93, m * r.out);
    test_mat mx = test_mat_make(m, r.in, 0, x), mw = test_mat_make(r.out, r.in, 0, w);
    test_mat mdy = test_mat_make(m, r.out, 0, dy);
    test_mat y[2], dw[2];
    for (int i = 0; i < 2; i++) {
        y[i] = test_mat_make(m, r.out, 0, NULL);
        dw[i] = test_mat_make(r.out, r.in, 0, NULL);
    }
    clprune_saved *saved = NULL;
    clprune_linear *layer = make_layer(&r, &saved);
    TEST_OK(clprune_linear_forward(
        layer, r.batch, mx.mat, mw.mat, CLPRUNE_NO_MAT, y[0].mat, saved, NULL));
    TEST_OK(clprune_linear_backward(layer, r.batch, 0.0f, saved, mdy.mat, mw.mat, CLPRUNE_NO_MAT,
        dw[0].mat, CLPRUNE_NO_MAT, NULL));
    TEST_OK(clprune_gemm(test_context(), false, true, 1, 0, mx.mat, mw.mat, y[1].mat, NULL));
    TEST_OK(clprune_gemm(test_context(), true, false, 1, 0, mdy.mat, mx.mat, dw[1].mat, NULL));
    float *got_y[2], *got_dw[2];
    for (int i = 0; i < 2; i++) {
        got_y[i] = test_mat_get(&y[i], "y");
        got_dw[i] = test_mat_get(&dw[i], "dw");
    }
    test_same_floats("y", m, r.out, got_y[0], got_y[1], "sparsity 0");
    test_same_floats("dw", r.out, r.in, got_dw[0], got_dw[1], "sparsity 0");
    clprune_saved_destroy(saved);
    clprune_linear_destroy(layer);
}

/* y and g = gelu(y) have the same bits whether the layer adds the bias or GELU does, and who does
 * it at no cost is the engine's: the library's own product. */
static void bias_left_to_gelu(void **state)
{
    const layer_row *r = *state;
    const size_t m = r->batch * r->rows;
    float *x = test_new_normal(94, m * r->in), *w = test_new_normal(95, r->out * r->in);
    float *b = test_new_normal(96, r->out);
    test_mat mx = test_mat_make(m, r->in, 1, x), mw = test_mat_make(r->out, r->in, 0, w);
    test_mat mb = test_mat_make(1, r->out, 0, b), y[2], g[2];
    for (int i = 0; i < 2; i++) {
        y[i] = test_mat_make(m, r->out, 2, NULL);
        g[i] = test_mat_make(m, r->out, 0, NULL);
    }
    clprune_saved *saved = NULL;
    clprune_linear *layer = make_layer(r, &saved);
    clprune_context *context = test_context();
    TEST_OK(clprune_linear_forward(layer, r->batch, mx.mat, mw.mat, mb.mat, y[0].mat, saved, NULL));
    TEST_OK(clprune_gelu_forward(context, y[0].mat, CLPRUNE_NO_MAT, g[0].mat, NULL));
    TEST_OK(clprune_linear_forward(
        layer, r->batch, mx.mat, mw.mat, CLPRUNE_NO_MAT, y[1].mat, saved, NULL));
    TEST_OK(clprune_gelu_forward(context, y[1].mat, mb.mat, g[1].mat, NULL));
    const bool fuses = clprune_linear_fuses_bias(layer);
    assert_true(fuses || clprune_context_kernels(context) != CLPRUNE_KERNELS_VECTOR);
    float *got[4] = {test_mat_get(&y[0], "y"), test_mat_get(&y[1], "y"), test_mat_get(&g[0], "g"),
        test_mat_get(&g[1], "g")};
    for (size_t i = 0; i < m * r->out; i++) {
        const float far = fuses ? 1e-5f * (float)r->in : 0;
        assert_true(fabsf(got[0][i] - got[1][i]) <= far && fabsf(got[2][i] - got[3][i]) <= far);
    }
    assert_false(clprune_linear_fuses_bias(NULL));
    const clprune_linear_desc of_rows = {.axis = CLPRUNE_AXIS_ROWS, .in = 3, .out = 4};
    clprune_linear *tokens = NULL;
    TEST_OK(clprune_linear_create(context, &of_rows, &tokens));
    assert_true(clprune_linear_fuses_bias(tokens)); /* with our kernels in both families */
    clprune_linear_destroy(tokens);
    clprune_saved_destroy(saved);
    clprune_linear_destroy(layer);
}

/* sum(y * g) for the given x, w, b: the loss whose gradient is the backward pass of dy = g. */
static double loss_of(clprune_linear *layer, const layer_row *r, test_mat *const inputs[3],
    const test_mat *y, const float *g)
{
    TEST_OK(clprune_linear_forward(
        layer, r->batch, inputs[0]->mat, inputs[1]->mat, inputs[2]->mat, y->mat, NULL, NULL));
    float *got = test_mat_get(y, "y");
    double loss = 0;
    for (size_t i = 0; i < y->mat.rows * y->mat.cols; i++)
        loss += (double)got[i] * (double)g[i];
    return loss;
}

/* The layers are linear in each input, so a central difference of any step is exact but for
 * rounding. */
static void finite_differences(void **state)
{
    const layer_row *r = *state;
    const sizes s = sizes_of(r);
    static const char *const names[3] = {"dx", "dw", "db"};
    const size_t in_rows[3] = {r->batch * s.x_rows, r->out, 1};
    const size_t in_cols[3] = {s.x_cols, r->in, r->out};
    float *values[3], *g = test_new_normal(104, r->batch * s.y_rows * s.y_cols);
    test_mat inputs[3], grads[3];
    for (size_t i = 0; i < 3; i++) {
        values[i] = test_new_normal(101 + i, in_rows[i] * in_cols[i]);
        inputs[i] = test_mat_make(in_rows[i], in_cols[i], 0, values[i]);
        grads[i] = test_mat_make(in_rows[i], in_cols[i], 0, NULL);
    }
    test_mat y = test_mat_make(r->batch * s.y_rows, s.y_cols, 0, NULL);
    test_mat dy = test_mat_make(r->batch * s.y_rows, s.y_cols, 0, g);
    clprune_saved *saved = NULL;
    clprune_linear *layer = make_layer(r, &saved);
    TEST_OK(clprune_linear_forward(
        layer, r->batch, inputs[0].mat, inputs[1].mat, inputs[2].mat, y.mat, saved, NULL));
    TEST_OK(clprune_linear_backward(layer, r->batch, 0.0f, saved, dy.mat, inputs[1].mat,
        grads[0].mat, grads[1].mat, grads[2].mat, NULL));
    test_mat *const pointers[3] = {&inputs[0], &inputs[1], &inputs[2]};
    test_rng rng = {105};
    for (size_t i = 0; i < 3; i++) {
        float *grad = test_mat_get(&grads[i], names[i]);
        for (int probe = 0; probe < 8; probe++) {
            const size_t at = test_rng_below(&rng, in_rows[i] * in_cols[i]);
            const float before = values[i][at];
            double loss[2];
            for (int side = 0; side < 2; side++) {
                values[i][at] = before + (side == 0 ? 1.0f : -1.0f);
                test_mat_set(&inputs[i], values[i]);
                loss[side] = loss_of(layer, r, pointers, &y, g);
            }
            values[i][at] = before;
            test_mat_set(&inputs[i], values[i]);
            const double difference = (loss[0] - loss[1]) / 2;
            if (!(fabs(difference - (double)grad[at]) <= 1e-4 * (1 + fabs(difference))))
                fail_msg("%s: %s[%zu] is %.9g, the difference %.9g", r->name, names[i], at,
                    (double)grad[at], difference);
        }
    }
    clprune_saved_destroy(saved);
    clprune_linear_destroy(layer);
}

/* All blocks kept, of each value type, each here with another index: dw is the product with them.
 */
static void narrow_values(void **state)
{
    (void)state;
    enum { BATCH = 2, TOKENS = 6, IN = 20, OUT = 9 };
    for (int type = CLPRUNE_VALUES_FP32; type <= CLPRUNE_VALUES_INT8; type++) {
        static const clprune_index_type indices[] = {CLPRUNE_INDEX_INT32, CLPRUNE_INDEX_BITMAP,
            CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_SMALLEST};
        static const clprune_index_type made[] = {
            CLPRUNE_INDEX_INT32, CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_BITMAP};
        const clprune_keep all = {.form = CLPRUNE_FORM_PRUNED,
            .value_type = (clprune_value_type)type,
            .index_type = indices[type]};
        for (int token = 0; token < 2; token++) {
            const clprune_linear_desc d = {
                .in = token ? TOKENS : IN, .out = OUT, .axis = (clprune_axis)token, .keep = all};
            clprune_linear *layer;
            clprune_saved *saved = NULL;
            TEST_OK(clprune_linear_create(test_context(), &d, &layer));
            TEST_OK(clprune_linear_saved_create(layer, BATCH, token ? IN : TOKENS, "x", &saved));
            const clprune_bsr kept = clprune_saved_bsr(saved, 0, BATCH);
            assert_int_equal(kept.desc.batch, BATCH);
            assert_int_equal(kept.desc.value_type, type);
            assert_int_equal(kept.desc.index_type, made[type]);
            const size_t in = token ? TOKENS : IN, y_rows = BATCH * (token ? OUT : TOKENS);
            const size_t y_cols = token ? IN : OUT;
            float *x = test_new_normal(101, BATCH * TOKENS * IN),
                  *w = test_new_normal(102, OUT * in);
            float *dy = test_new_normal(103, y_rows * y_cols);
            test_mat mx = test_mat_make(BATCH * TOKENS, IN, 0, x),
                     mw = test_mat_make(OUT, in, 0, w);
            test_mat my = test_mat_make(y_rows, y_cols, 0, NULL);
            test_mat mdy = test_mat_make(y_rows, y_cols, 0, dy);
            test_mat mdw = test_mat_make(OUT, in, 0, NULL), want = test_mat_make(OUT, in, 0, NULL);
            TEST_OK(clprune_linear_forward(
                layer, BATCH, mx.mat, mw.mat, CLPRUNE_NO_MAT, my.mat, saved, NULL));
            TEST_OK(clprune_linear_backward(layer, BATCH, 0.0f, saved, mdy.mat, mw.mat,
                CLPRUNE_NO_MAT, mdw.mat, CLPRUNE_NO_MAT, NULL));
            TEST_OK((token ? clprune_saved_product_nt : clprune_saved_product_tn)(
                saved, 0, BATCH, 0.0f, mdy.mat, want.mat, NULL));
            float *got = test_mat_get(&mdw, "dw"), *product = test_mat_get(&want, "product");
            test_same_floats("dw", OUT, in, got, product, "value type %d", type);
            clprune_saved_destroy(saved);
            clprune_linear_destroy(layer);
        }
    }
}

/* A forward pass without samples leaves the store as it is, also one of another layer's shape; the
 * backward pass scales dw and db. */
static void no_samples(void **state)
{
    (void)state;
    const clprune_keep keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f};
    clprune_saved *saved;
    float *values = test_new_normal(111, 2 * 6 * 7);
    test_mat kept = test_mat_make(2 * 6, 7, 0, values), w = test_mat_make(5, 4, 0, values);
    test_mat before = test_mat_make(2 * 6, 7, 0, NULL), after = test_mat_make(2 * 6, 7, 0, NULL);
    test_mat x = test_mat_make(0, 4, 0, NULL), y = test_mat_make(0, 5, 0, NULL);
    TEST_OK(clprune_saved_create(test_context(), "kept", &keep, 2, 6, 7, &saved));
    TEST_OK(clprune_saved_store(saved, 0, 2, kept.mat, NULL));
    TEST_OK(clprune_saved_restore(saved, 0, 2, before.mat, NULL));
    for (int token = 0; token < 2; token++) {
        const clprune_linear_desc desc = {.in = 4, .out = 5, .axis = (clprune_axis)token};
        clprune_linear *layer;
        TEST_OK(clprune_linear_create(test_context(), &desc, &layer));
        y.mat.cols = token ? 4 : 5;
        TEST_OK(clprune_linear_forward(layer, 0, x.mat, w.mat, CLPRUNE_NO_MAT, y.mat, saved, NULL));
        test_mat dw = test_mat_make(5, 4, 0, values), db = test_mat_make(1, 5, 0, values);
        TEST_OK(clprune_linear_backward(
            layer, 0, 0.5f, saved, y.mat, w.mat, x.mat, dw.mat, db.mat, NULL));
        float *scaled_w = test_mat_get(&dw, "dw"), *scaled_b = test_mat_get(&db, "db");
        for (size_t i = 0; i < 5 * 4; i++)
            assert_true(scaled_w[i] == 0.5f * values[i] && scaled_b[i % 5] == 0.5f * values[i % 5]);
        clprune_linear_destroy(layer);
    }
    TEST_OK(clprune_saved_restore(saved, 0, 2, after.mat, NULL));
    float *a = test_mat_get(&before, "before"), *b = test_mat_get(&after, "after");
    test_same_floats("kept", 2 * 6, 7, b, a, "no samples");
    clprune_saved_destroy(saved);
}

/* No gradient may lie upon the store, which would count as stored: also not without dw. */
static void upon_the_store(void **state)
{
    (void)state;
    enum { BATCH = 2, SIDE = 6 };
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_mat none = CLPRUNE_NO_MAT;
    for (int axis = 0; axis < 2; axis++) {
        const clprune_linear_desc desc = {.in = SIDE, .out = SIDE, .axis = (clprune_axis)axis};
        clprune_linear *layer;
        clprune_saved *saved;
        TEST_OK(clprune_linear_create(test_context(), &desc, &layer));
        TEST_OK(clprune_linear_saved_create(layer, BATCH, SIDE, "x", &saved));
        test_mat x = test_mat_make(BATCH * SIDE, SIDE, 0, NULL),
                 w = test_mat_make(SIDE, SIDE, 0, NULL);
        test_mat y = test_mat_make(BATCH * SIDE, SIDE, 0, NULL),
                 dw = test_mat_make(SIDE, SIDE, 0, NULL);
        TEST_OK(clprune_linear_forward(layer, BATCH, x.mat, w.mat, none, y.mat, saved, NULL));
        const clprune_mat own = clprune_saved_dense(saved, 0, BATCH),
                          row = clprune_mat_rows(own, 0, 1);
        TEST_FAILS(
            clprune_linear_backward(layer, BATCH, 0, saved, y.mat, w.mat, own, dw.mat, none, NULL),
            bad, "dx overlaps saved");
        TEST_FAILS(
            clprune_linear_backward(layer, BATCH, 0, saved, y.mat, w.mat, own, none, none, NULL),
            bad, "dx overlaps saved");
        TEST_FAILS(
            clprune_linear_backward(layer, BATCH, 0, saved, y.mat, none, none, none, row, NULL),
            bad, "db overlaps saved");
        clprune_saved_destroy(saved);
        clprune_linear_destroy(layer);
    }
}

/* Forward and backward of one layer for samples of `length` rows. */
static void run_rows(clprune_linear *layer, size_t length, size_t in, size_t out)
{
    enum { BATCH = 2 };
    clprune_saved *saved;
    /* enough for the largest of x, y and w */
    float *values = test_new_normal(81, BATCH * length * (in + out) + in * out);
    test_mat x = test_mat_make(BATCH * length, in, 0, values);
    test_mat y = test_mat_make(BATCH * length, out, 0, values);
    test_mat w = test_mat_make(out, in, 0, values), b = test_mat_make(1, out, 0, values);
    test_mat dw = test_mat_make(out, in, 0, NULL), db = test_mat_make(1, out, 0, NULL);
    TEST_OK(clprune_linear_saved_create(layer, BATCH, length, "x", &saved));
    TEST_OK(clprune_linear_forward(layer, BATCH, x.mat, w.mat, b.mat, y.mat, saved, NULL));
    TEST_OK(
        clprune_linear_backward(layer, BATCH, 0, saved, y.mat, w.mat, x.mat, dw.mat, db.mat, NULL));
    clprune_saved_destroy(saved);
}

/* dw of samples of one row has the same bits whatever stores the index. */
static void one_row_indices(void **state)
{
    (void)state;
    static const clprune_index_type types[] = {CLPRUNE_INDEX_INT32, CLPRUNE_INDEX_BITMAP};
    static const clprune_value_type values[] = {CLPRUNE_VALUES_FP32, CLPRUNE_VALUES_INT8};
    enum { BATCH = 70, IN = 75, OUT = 20 };
    clprune_context *context = test_context();
    float *x_values = test_new_normal(82, BATCH * IN),
          *dy_values = test_new_normal(83, BATCH * OUT);
    test_mat x = test_mat_make(BATCH, IN, 1, x_values), y = test_mat_make(BATCH, OUT, 0, dy_values);
    test_mat w = test_mat_make(OUT, IN, 0, x_values), out = test_mat_make(BATCH, OUT, 0, NULL);
    const clprune_mat none = CLPRUNE_NO_MAT;
    for (size_t v = 0; v < 2; v++) {
        test_mat dw[2];
        for (size_t i = 0; i < 2; i++) {
            clprune_linear *layer;
            clprune_saved *saved;
            const clprune_linear_desc desc = {.in = IN,
                .out = OUT,
                .keep = {.form = CLPRUNE_FORM_PRUNED,
                    .sparsity = 0.4f,
                    .value_type = values[v],
                    .index_type = types[i]}};
            dw[i] = test_mat_make(OUT, IN, i, NULL);
            TEST_OK(clprune_linear_create(context, &desc, &layer));
            TEST_OK(clprune_linear_saved_create(layer, BATCH, 1, "x", &saved));
            TEST_OK(clprune_linear_forward(layer, BATCH, x.mat, w.mat, none, out.mat, saved, NULL));
            TEST_OK(clprune_linear_backward(
                layer, BATCH, 0, saved, y.mat, none, none, dw[i].mat, none, NULL));
            clprune_saved_destroy(saved);
            clprune_linear_destroy(layer);
        }
        float *a = test_mat_get(&dw[0], "dw"), *b = test_mat_get(&dw[1], "dw");
        test_same_floats("dw", OUT, IN, a, b, "two index types");
    }
}

/* The number of rows is no define: after the shortest and the longest samples, which may take
 * different tiles, no other length builds a program. */
static void lengths_build_nothing(void **state)
{
    (void)state;
    static const size_t lengths[] = {7, 300, 16, 33, 50, 64, 100, 196, 197, 256};
    enum { IN = 48, OUT = 40 };
    clprune_context *context = test_context();
    clprune_linear *layer;
    const clprune_linear_desc desc = {.in = IN,
        .out = OUT,
        .keep = {
            .form = CLPRUNE_FORM_PRUNED, .sparsity = 0.7f, .index_type = CLPRUNE_INDEX_BITMAP}};
    TEST_OK(clprune_linear_create(context, &desc, &layer));
    uint64_t after_two = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        run_rows(layer, lengths[i], IN, OUT);
        const clprune_cache_stats stats = clprune_context_cache_stats(context);
        const uint64_t programs = stats.builds + stats.disk_hits;
        if (i == 1)
            after_two = programs;
        if (i > 1 && programs != after_two)
            fail_msg("samples of %zu rows took %d more programs", lengths[i],
                (int)(programs - after_two));
    }
    clprune_linear_destroy(layer);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_add(&list, against_reference, &rows[i], "reference: %s", rows[i].name);
        if (rows[i].batch > 0 && rows[i].tenths == 7)
            test_add(&list, skipped_outputs, &rows[i], "skipped outputs: %s", rows[i].name);
        if (!rows[i].tokens && rows[i].bias)
            test_add(&list, bias_left_to_gelu, &rows[i], "bias left to GELU: %s", rows[i].name);
        if (rows[i].tenths == 0)
            test_add(&list, finite_differences, &rows[i], "differences: %s", rows[i].name);
    }
    test_add(&list, zero_sparsity_is_dense, NULL, "sparsity 0 is the dense layer bit for bit");
    test_add(&list, narrow_values, NULL, "narrow values");
    test_add(&list, no_samples, NULL, "a store of another shape, no samples");
    test_add(&list, upon_the_store, NULL, "gradients upon the store");
    test_add(&list, one_row_indices, NULL, "samples of one row, index types");
    test_add(&list, lengths_build_nothing, NULL, "ten lengths build no program twice");
    return test_run_on_devices("linear", &list);
}
