/* The linear layer along both axes: against the reference, against dense products bit for bit,
 * and by finite differences. */
#include "ops/products/gemm_private.h"
#include "ref/linear_ref.h"
#include "ref/prune_ref.h"
#include "support/test_layer.h"

/* Both axes in one view: `batch` samples whose x is in_rows x in_cols and whose y is out_rows x
 * out_cols. `tokens`: the axis of rows. */
typedef struct linear_row {
    const char *name;
    bool tokens;
    size_t batch;
    size_t rows; /* the other side of a sample: its rows, or its features */
    size_t in, out;
    clprune_block block;
    uint64_t tenths; /* of sparsity */
    bool bias;
} linear_row;

static const linear_row rows[] = {
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
    {"token, more outputs than a block of rows", true, 2, 20, 6, 400, {0, 0}, 5, true},
    {"token, no samples", true, 0, 33, 10, 12, {0, 0}, 7, true},
};

static clprune_keep keep_of(const linear_row *r)
{
    if (r->tenths == 0)
        return (clprune_keep){.form = CLPRUNE_FORM_DENSE};
    const float sparsity = (float)((double)r->tenths / 10);
    return (clprune_keep){.form = CLPRUNE_FORM_PRUNED, .block = r->block, .sparsity = sparsity};
}

/* Sizes of one sample's x and of y. */
typedef struct sizes {
    size_t x_rows, x_cols, y_rows, y_cols;
} sizes;

static sizes sizes_of(const linear_row *r)
{
    if (r->tokens)
        return (sizes){r->in, r->rows, r->out, r->rows};
    return (sizes){r->rows, r->in, r->rows, r->out};
}

/* x with the blocks pruned that the layer must prune. */
static float *pruned(const linear_row *r, const float *x)
{
    const sizes s = sizes_of(r);
    return prune_ref_kept(PRUNE_REF_L2, r->tenths, r->batch, s.x_rows, s.x_cols,
        r->block.rows > 0 ? r->block.rows : 1, r->block.cols > 0 ? r->block.cols : 16, x);
}

/* A layer of a row with its store, inputs and outputs: x, w, b, dy, y, dx, dw, db. */
enum { X, W, B, DY, Y, DX, DW, DB, TENSORS };

typedef struct tensors {
    clprune_linear *layer;
    clprune_saved *saved;
    float *values[DY + 1];
    test_mat m[TENSORS];
} tensors;

/* A layer that keeps x so. */
static tensors tensors_open_with(const linear_row *r, clprune_keep keep, uint64_t seed)
{
    const sizes s = sizes_of(r);
    const size_t rows_of[TENSORS] = {r->batch * s.x_rows, r->out, 1, r->batch * s.y_rows,
        r->batch * s.y_rows, r->batch * s.x_rows, r->out, 1};
    const size_t cols_of[TENSORS] = {
        s.x_cols, r->in, r->out, s.y_cols, s.y_cols, s.x_cols, r->in, r->out};
    static const size_t gaps[TENSORS] = {1, 2, 0, 3, 2, 2, 1, 0};
    tensors t = {NULL};
    for (size_t i = 0; i < TENSORS; i++) {
        if (i <= DY)
            t.values[i] = test_new_normal(seed + i, rows_of[i] * cols_of[i]);
        t.m[i] = test_mat_make(rows_of[i], cols_of[i], gaps[i], i <= DY ? t.values[i] : NULL);
    }
    t.layer = test_new_linear(
        test_context(), (clprune_linear_desc){.in = r->in,
                            .out = r->out,
                            .axis = r->tokens ? CLPRUNE_AXIS_ROWS : CLPRUNE_AXIS_FEATURES,
                            .keep = keep});
    t.saved = test_new_linear_saved(test_context(), t.layer, r->batch, r->rows);
    return t;
}

static tensors tensors_open(const linear_row *r, uint64_t seed)
{
    return tensors_open_with(r, keep_of(r), seed);
}

/* A forward pass that fills the store. */
static void pass_forward(const tensors *t, size_t batch, clprune_mat b, clprune_mat y)
{
    TEST_EVENT(
        clprune_linear_forward(t->layer, batch, t->m[X].mat, t->m[W].mat, b, y, t->saved, &event));
}

static void check(const char *what, const test_mat *m, gemm_ref ref, const linear_row *r)
{
    test_close(what, ref.m, ref.n, test_mat_get(m, what), ref.want, ref.bound, "%s", r->name);
}

static void against_reference(void **state)
{
    const linear_row *r = *state;
    const linear_ref ref = {r->tokens, r->batch, r->rows, r->in, r->out};
    tensors t = tensors_open(r, 71);
    const float *x = t.values[X], *w = t.values[W], *dy = t.values[DY], *kept = pruned(r, x);
    const float *b = r->bias ? t.values[B] : NULL;
    pass_forward(&t, r->batch, r->bias ? t.m[B].mat : CLPRUNE_NO_MAT, t.m[Y].mat);
    test_mat_unchanged(&t.m[X], "x");
    TEST_OK(clprune_mat_fill(test_context(), NAN, t.m[X].mat, NULL)); /* x is long gone */
    TEST_EVENT(clprune_linear_backward(t.layer, r->batch, t.saved, t.m[DY].mat, t.m[W].mat,
        &(clprune_grads){.dx = t.m[DX].mat, .dw = t.m[DW].mat, .db = t.m[DB].mat}, &event));
    check("y", &t.m[Y], linear_ref_forward(&ref, x, w, b), r);
    check("dx", &t.m[DX], linear_ref_dx(&ref, dy, w, 0, NULL), r);
    check("dw", &t.m[DW], linear_ref_dw(&ref, dy, kept), r);
    check("db", &t.m[DB], linear_ref_db(&ref, dy), r);
    const float *old = test_mat_get(&t.m[DX], "dx");
    TEST_OK(clprune_linear_backward(t.layer, r->batch, NULL, t.m[DY].mat, t.m[W].mat,
        &(clprune_grads){.dx = t.m[DX].mat, .dx_beta = -0.5f}, NULL));
    check("dx, added", &t.m[DX], linear_ref_dx(&ref, dy, w, -0.5f, old), r);
    for (size_t i = W; i <= DY; i++)
        test_mat_unchanged(&t.m[i], "input");
    TEST_FAILS(
        clprune_linear_backward(t.layer, r->batch, NULL, t.m[DY].mat, t.m[W].mat, NULL, NULL),
        CLPRUNE_INVALID_ARGUMENT, "grads is NULL");
}

/* Each output of the backward pass by itself has the bits it has together with the others. */
static void skipped_outputs(void **state)
{
    const linear_row *r = *state;
    tensors t = tensors_open(r, 81);
    const float *full[3] = {NULL, NULL, NULL};
    pass_forward(&t, r->batch, CLPRUNE_NO_MAT, t.m[Y].mat);
    for (int wanted = 7; wanted >= 0; wanted--) {
        static const char *const names[] = {"dx", "dw", "db"};
        clprune_mat given[3];
        for (int i = 0; i < 3; i++) {
            test_mat_set(&t.m[DX + i], NULL);
            given[i] = wanted & 1 << i ? t.m[DX + i].mat : CLPRUNE_NO_MAT;
        }
        /* What a skipped output alone needs may be missing: w for dx, the kept x for dw. */
        TEST_EVENT(clprune_linear_backward(t.layer, r->batch, wanted & 2 ? t.saved : NULL,
            t.m[DY].mat, wanted & 1 ? t.m[W].mat : CLPRUNE_NO_MAT,
            &(clprune_grads){.dx = given[0], .dw = given[1], .db = given[2]}, &event));
        for (int i = 0; i < 3; i++) {
            const test_mat *out = &t.m[DX + i];
            const float *got = test_mat_get(out, names[i]);
            if (wanted == 7)
                full[i] = got;
            else if (wanted & 1 << i)
                test_same_floats(names[i], out->mat.rows, out->mat.cols, got, full[i],
                    "%s, outputs %d", r->name, wanted);
            else
                test_mat_unchanged(out, names[i]);
        }
    }
}

/* Sparsity 0: y and dw are those of dense products, bit for bit. */
static void zero_sparsity_is_dense(NO_ROW)
{
    const linear_row r = {"linear", false, 3, 49, 64, 80, {0, 0}, 0, false};
    const clprune_mat none = CLPRUNE_NO_MAT;
    tensors t = tensors_open(&r, 91);
    const clprune_mat x = t.m[X].mat, w = t.m[W].mat, dy = t.m[DY].mat;
    test_mat y = test_mat_make(r.batch * r.rows, r.out, 0, NULL);
    test_mat dw = test_mat_make(r.out, r.in, 0, NULL);
    pass_forward(&t, r.batch, none, t.m[Y].mat);
    TEST_OK(clprune_linear_backward(
        t.layer, r.batch, t.saved, dy, w, &(clprune_grads){.dw = t.m[DW].mat}, NULL));
    TEST_OK(clprune_gemm(test_context(), false, true, 1, 0, x, w, y.mat, NULL));
    TEST_OK(clprune_gemm(test_context(), true, false, 1, 0, dy, x, dw.mat, NULL));
    layer_same("y", &t.m[Y], &y);
    layer_same("dw", &t.m[DW], &dw);
}

/* y and g = gelu(y) have the same bits whether the layer adds the bias or GELU does, and who does
 * it at no cost is the engine's: the library's own product. */
static void bias_left_to_gelu(void **state)
{
    const linear_row *r = *state;
    const size_t m = r->batch * r->rows;
    clprune_context *context = test_context();
    tensors t = tensors_open(r, 94);
    test_mat y = test_mat_make(m, r->out, 2, NULL), g[2];
    for (size_t i = 0; i < 2; i++)
        g[i] = test_mat_make(m, r->out, 0, NULL);
    pass_forward(&t, r->batch, t.m[B].mat, t.m[Y].mat);
    TEST_OK(clprune_gelu_forward(context, t.m[Y].mat, CLPRUNE_NO_MAT, g[0].mat, NULL));
    pass_forward(&t, r->batch, CLPRUNE_NO_MAT, y.mat);
    TEST_OK(clprune_gelu_forward(context, y.mat, t.m[B].mat, g[1].mat, NULL));
    const bool fuses = clprune__gemm_fuses_bias(context, false);
    assert_true(fuses || clprune_context_kernels(context) != CLPRUNE_KERNELS_VECTOR);
    const float *got[4] = {test_mat_get(&t.m[Y], "y"), test_mat_get(&y, "y"),
        test_mat_get(&g[0], "g"), test_mat_get(&g[1], "g")};
    for (size_t i = 0; i < m * r->out; i++) {
        const float far = fuses ? 1e-5f * (float)r->in : 0;
        assert_true(fabsf(got[0][i] - got[1][i]) <= far && fabsf(got[2][i] - got[3][i]) <= far);
    }
}

/* sum(y * dy) for the x, w, b of `t`: the loss whose gradient is the backward pass of dy. */
static double loss_of(const tensors *t, size_t batch)
{
    pass_forward(t, batch, t->m[B].mat, t->m[Y].mat);
    const size_t mark = test_mark();
    const float *y = test_mat_get(&t->m[Y], "y");
    double loss = 0;
    for (size_t i = 0; i < t->m[Y].mat.rows * t->m[Y].mat.cols; i++)
        loss += (double)y[i] * (double)t->values[DY][i];
    test_release(mark);
    return loss;
}

/* The layers are linear in each input, so a central difference of any step is exact but for
 * rounding. Operands of bf16 are steps of their own. */
static void finite_differences(void **state)
{
    if (gemm_ref_operand != NULL)
        skip();
    const linear_row *r = *state;
    static const char *const names[3] = {"dx", "dw", "db"};
    tensors t = tensors_open(r, 101);
    pass_forward(&t, r->batch, t.m[B].mat, t.m[Y].mat);
    TEST_OK(clprune_linear_backward(t.layer, r->batch, t.saved, t.m[DY].mat, t.m[W].mat,
        &(clprune_grads){.dx = t.m[DX].mat, .dw = t.m[DW].mat, .db = t.m[DB].mat}, NULL));
    test_rng rng = {105};
    for (size_t i = 0; i < 3; i++) {
        const float *grad = test_mat_get(&t.m[DX + i], names[i]);
        for (int probe = 0; probe < 8; probe++) {
            const size_t at = test_rng_below(&rng, t.m[i].mat.rows * t.m[i].mat.cols);
            const float before = t.values[i][at];
            double loss[2];
            for (int side = 0; side < 2; side++) {
                t.values[i][at] = before + (side == 0 ? 1.0f : -1.0f);
                test_mat_set(&t.m[i], t.values[i]);
                loss[side] = loss_of(&t, r->batch);
            }
            t.values[i][at] = before;
            test_mat_set(&t.m[i], t.values[i]);
            const double difference = (loss[0] - loss[1]) / 2;
            if (!(fabs(difference - (double)grad[at]) <= 1e-4 * (1 + fabs(difference))))
                fail_msg("%s: %s[%zu] is %.9g, the difference %.9g", r->name, names[i], at,
                    (double)grad[at], difference);
        }
    }
}

/* All blocks kept, of each value type, each with another index: dw is the product with them. */
static void narrow_values(NO_ROW)
{
    static const clprune_index_type indices[] = {
        CLPRUNE_INDEX_INT32, CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_SMALLEST};
    static const clprune_index_type made[] = {
        CLPRUNE_INDEX_INT32, CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_BITMAP};
    static const linear_row all_rows[] = {{"features", false, 2, 6, 20, 9, {0, 0}, 0, false},
        {"tokens", true, 2, 20, 6, 9, {0, 0}, 0, false}};
    for (int type = CLPRUNE_VALUES_FP32; type <= CLPRUNE_VALUES_INT8; type++)
        for (size_t i = 0; i < COUNT_OF(all_rows); i++) {
            const linear_row *r = &all_rows[i];
            const clprune_keep all = {.form = CLPRUNE_FORM_PRUNED,
                .value_type = (clprune_value_type)type,
                .index_type = indices[type]};
            tensors t = tensors_open_with(r, all, 101);
            const clprune_bsr kept = clprune_saved_bsr(t.saved, 0, r->batch);
            assert_int_equal(kept.desc.batch, r->batch);
            assert_int_equal(kept.desc.value_type, type);
            assert_int_equal(kept.desc.index_type, made[type]);
            test_mat want = test_mat_make(r->out, r->in, 0, NULL);
            pass_forward(&t, r->batch, CLPRUNE_NO_MAT, t.m[Y].mat);
            TEST_OK(clprune_linear_backward(t.layer, r->batch, t.saved, t.m[DY].mat, t.m[W].mat,
                &(clprune_grads){.dw = t.m[DW].mat}, NULL));
            TEST_OK((r->tokens ? clprune_saved_product_nt : clprune_saved_product_tn)(
                t.saved, 0, r->batch, 0.0f, t.m[DY].mat, want.mat, NULL));
            layer_same("dw", &t.m[DW], &want);
        }
}

/* A forward pass without samples leaves the store as it is, also one of another layer's shape; the
 * backward pass scales dw and db. */
static void no_samples(NO_ROW)
{
    const clprune_keep keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f};
    float *values = test_new_normal(111, 2 * 6 * 7);
    test_mat kept = test_mat_make(2 * 6, 7, 0, values), w = test_mat_make(5, 4, 0, values);
    test_mat before = test_mat_make(2 * 6, 7, 0, NULL), after = test_mat_make(2 * 6, 7, 0, NULL);
    test_mat x = test_mat_make(0, 4, 0, NULL), y = test_mat_make(0, 5, 0, NULL);
    clprune_saved *saved = test_new_saved(test_context(), keep, 2, 6, 7);
    TEST_OK(clprune_saved_store(saved, 0, 2, kept.mat, NULL));
    TEST_OK(clprune_saved_restore(saved, 0, 2, before.mat, NULL));
    for (int token = 0; token < 2; token++) {
        clprune_linear *layer = test_new_linear(
            test_context(), (clprune_linear_desc){.in = 4, .out = 5, .axis = (clprune_axis)token});
        y.mat.cols = token ? 4 : 5;
        TEST_OK(clprune_linear_forward(layer, 0, x.mat, w.mat, CLPRUNE_NO_MAT, y.mat, saved, NULL));
        test_mat dw = test_mat_make(5, 4, 0, values), db = test_mat_make(1, 5, 0, values);
        TEST_OK(clprune_linear_backward(layer, 0, saved, y.mat, w.mat,
            &(clprune_grads){.dx = x.mat, .dw = dw.mat, .db = db.mat, .beta = 0.5f}, NULL));
        float *scaled_w = test_mat_get(&dw, "dw"), *scaled_b = test_mat_get(&db, "db");
        for (size_t i = 0; i < 5 * 4; i++)
            assert_true(scaled_w[i] == 0.5f * values[i] && scaled_b[i % 5] == 0.5f * values[i % 5]);
    }
    TEST_OK(clprune_saved_restore(saved, 0, 2, after.mat, NULL));
    layer_same("kept", &before, &after);
}

/* No gradient may lie upon the store, which would count as stored: also not without dw. */
static void upon_the_store(NO_ROW)
{
    static const linear_row square[] = {{"features", false, 2, 6, 6, 6, {0, 0}, 0, false},
        {"tokens", true, 2, 6, 6, 6, {0, 0}, 0, false}};
    for (size_t i = 0; i < COUNT_OF(square); i++) {
        tensors t = tensors_open(&square[i], 105);
        const clprune_mat none = CLPRUNE_NO_MAT, w = t.m[W].mat, dw = t.m[DW].mat;
        pass_forward(&t, 2, none, t.m[Y].mat);
        const clprune_mat own = clprune_saved_dense(t.saved, 0, 2),
                          row = clprune_mat_rows(own, 0, 1);
        const struct {
            clprune_mat w;
            clprune_grads grads;
            const char *text;
        } calls[] = {{w, {.dx = own, .dw = dw}, "dx overlaps saved"},
            {w, {.dx = own}, "dx overlaps saved"}, {none, {.db = row}, "db overlaps saved"}};
        for (size_t k = 0; k < COUNT_OF(calls); k++)
            TEST_FAILS(clprune_linear_backward(
                           t.layer, 2, t.saved, t.m[DY].mat, calls[k].w, &calls[k].grads, NULL),
                CLPRUNE_INVALID_ARGUMENT, calls[k].text);
    }
}

/* Forward and backward of one layer for samples of `length` rows. */
static void run_rows(clprune_linear *layer, size_t length, size_t in, size_t out)
{
    enum { BATCH = 2 };
    /* enough for the largest of x, y and w */
    float *values = test_new_normal(81, BATCH * length * (in + out) + in * out);
    test_mat x = test_mat_make(BATCH * length, in, 0, values);
    test_mat y = test_mat_make(BATCH * length, out, 0, values);
    test_mat w = test_mat_make(out, in, 0, values), b = test_mat_make(1, out, 0, values);
    test_mat dw = test_mat_make(out, in, 0, NULL), db = test_mat_make(1, out, 0, NULL);
    clprune_saved *saved = test_new_linear_saved(test_context(), layer, BATCH, length);
    TEST_OK(clprune_linear_forward(layer, BATCH, x.mat, w.mat, b.mat, y.mat, saved, NULL));
    TEST_OK(clprune_linear_backward(layer, BATCH, saved, y.mat, w.mat,
        &(clprune_grads){.dx = x.mat, .dw = dw.mat, .db = db.mat}, NULL));
}

/* dw of samples of one row has the same bits whatever stores the index. */
static void one_row_indices(NO_ROW)
{
    static const clprune_index_type types[] = {CLPRUNE_INDEX_INT32, CLPRUNE_INDEX_BITMAP};
    static const clprune_value_type values[] = {CLPRUNE_VALUES_FP32, CLPRUNE_VALUES_INT8};
    static const linear_row r = {"one row", false, 70, 1, 75, 20, {0, 0}, 0, false};
    for (size_t v = 0; v < 2; v++) {
        test_mat dw[2];
        for (size_t i = 0; i < 2; i++) {
            const clprune_keep keep = {.form = CLPRUNE_FORM_PRUNED,
                .sparsity = 0.4f,
                .value_type = values[v],
                .index_type = types[i]};
            tensors t = tensors_open_with(&r, keep, 82);
            dw[i] = test_mat_make(r.out, r.in, i, NULL);
            pass_forward(&t, r.batch, CLPRUNE_NO_MAT, t.m[Y].mat);
            TEST_OK(clprune_linear_backward(t.layer, r.batch, t.saved, t.m[DY].mat, CLPRUNE_NO_MAT,
                &(clprune_grads){.dw = dw[i].mat}, NULL));
        }
        layer_same("dw", &dw[0], &dw[1]);
    }
}

/* The number of rows is no define: after the shortest and the longest samples, which may take
 * different tiles, no other length builds a program. */
static void lengths_build_nothing(NO_ROW)
{
    static const size_t lengths[] = {7, 300, 16, 33, 50, 64, 100, 196, 197, 256};
    enum { IN = 48, OUT = 40 };
    const clprune_keep keep = {
        .form = CLPRUNE_FORM_PRUNED, .sparsity = 0.7f, .index_type = CLPRUNE_INDEX_BITMAP};
    clprune_linear *layer =
        test_new_linear(test_context(), (clprune_linear_desc){.in = IN, .out = OUT, .keep = keep});
    uint64_t after_two = 0;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        run_rows(layer, lengths[i], IN, OUT);
        const clprune_cache_stats stats = clprune_context_cache_stats(test_context());
        const uint64_t programs = stats.builds + stats.disk_hits;
        if (i == 1)
            after_two = programs;
        if (i > 1 && programs != after_two)
            fail_msg("samples of %zu rows took %d more programs", lengths[i],
                (int)(programs - after_two));
    }
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
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
