/* GELU: values over all shapes, with a bias and with its gradient, accuracy over the whole line,
 * special values, derivatives, aliasing, repeatability, invalid arguments. */
#include "ref/gelu_ref.h"
#include "support/test_layer.h"

static void values(void **state)
{
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols;
    clprune_context *context = test_context();
    float *h = test_new_uniform(21, -6, 6, count), *dg = test_new_normal(22, count);
    double *wide_h = layer_widen(count, h), *wide_dg = layer_widen(count, dg);
    double *g_want = layer_new(count), *g_bound = layer_new(count);
    double *dh_want = layer_new(count), *dh_bound = layer_new(count);
    gelu_ref_forward(count, wide_h, g_want, g_bound);
    gelu_ref_backward(count, wide_h, wide_dg, dh_want, dh_bound);
    test_mat in = test_mat_make(s->rows, s->cols, s->gap, h);
    test_mat out = test_mat_make(s->rows, s->cols, s->gap + 1, NULL);
    test_mat gradient = test_mat_make(s->rows, s->cols, s->gap + 2, dg);
    cl_event event = NULL;
    TEST_OK(clprune_gelu_forward(context, in.mat, CLPRUNE_NO_MAT, out.mat, &event));
    layer_event(event);
    layer_check("g", &out, g_want, g_bound, "forward");
    TEST_OK(
        clprune_gelu_backward(context, 0, in.mat, gradient.mat, out.mat, CLPRUNE_NO_MAT, &event));
    layer_event(event);
    layer_check("dh", &out, dh_want, dh_bound, "backward");
    test_mat_unchanged(&in, "h");
    test_mat_unchanged(&gradient, "dg");
    /* In place, three ways; also a second run. */
    TEST_OK(clprune_gelu_backward(
        context, 0, in.mat, gradient.mat, gradient.mat, CLPRUNE_NO_MAT, NULL));
    layer_same("dh over dg", &out, &gradient);
    test_mat_set(&gradient, dg);
    TEST_OK(clprune_gelu_backward(context, 0, in.mat, gradient.mat, in.mat, CLPRUNE_NO_MAT, NULL));
    layer_same("dh over h", &out, &in);
    test_mat_set(&in, h);
    TEST_OK(clprune_gelu_forward(context, in.mat, CLPRUNE_NO_MAT, out.mat, NULL));
    TEST_OK(clprune_gelu_forward(context, in.mat, CLPRUNE_NO_MAT, in.mat, NULL));
    layer_same("g over h", &out, &in);
}

/* With a bias: h and g have the bits of an addition and a pass of its own, in place too. */
static void bias(void **state)
{
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols;
    clprune_context *context = test_context();
    float *h = test_new_uniform(27, -5, 5, count), *b = test_new_uniform(28, -2, 2, s->cols);
    float *sum = test_new_normal(29, count);
    for (size_t i = 0; i < count; i++)
        sum[i] = h[i] + b[i % s->cols];
    double *wide = layer_widen(count, sum), *want = layer_new(count), *bound = layer_new(count);
    gelu_ref_forward(count, wide, want, bound);
    test_mat in = test_mat_make(s->rows, s->cols, s->gap, h);
    test_mat both = test_mat_make(s->rows, s->cols, s->gap + 2, h);
    test_mat out = test_mat_make(s->rows, s->cols, s->gap + 1, NULL);
    test_mat moved = test_mat_make(s->rows, s->cols, 0, sum);
    test_mat plain = test_mat_make(s->rows, s->cols, 1, NULL);
    test_mat bias = test_mat_make(1, s->cols, 3, b);
    cl_event event = NULL;
    TEST_OK(clprune_gelu_forward(context, in.mat, bias.mat, out.mat, &event));
    layer_event(event);
    layer_check("g", &out, want, bound, "with a bias");
    layer_same("h + b", &in, &moved);
    TEST_OK(clprune_gelu_forward(context, moved.mat, CLPRUNE_NO_MAT, plain.mat, NULL));
    layer_same("g", &out, &plain);
    TEST_OK(clprune_gelu_forward(context, both.mat, bias.mat, both.mat, NULL));
    layer_same("g over h", &both, &plain);
    test_mat_unchanged(&bias, "b");
}

/* db of dh = `want`, itself within `off` of it. */
static void ref_sums(
    const layer_shape *s, const double *want, const double *off, double *db, double *bound)
{
    for (size_t c = 0; c < s->cols; c++) {
        double size = 0;
        db[c] = bound[c] = 0;
        for (size_t i = c; i < s->rows * s->cols; i += s->cols) {
            db[c] += want[i];
            size += fabs(want[i]);
            bound[c] += off[i];
        }
        bound[c] += test_bound(s->rows, size, db[c]);
    }
}

/* The same, added to `start`. */
static void ref_add(size_t cols, const float *start, double *db, double *bound)
{
    for (size_t c = 0; c < cols; c++) {
        db[c] += (double)start[c];
        bound[c] += 2 * 0x1p-24 * (fabs((double)start[c]) + fabs(db[c]));
    }
}

/* With db: dh has the bits of the pass without it, db those of the linear layer's pass over dh; dh
 * over dg and over h, and added to. */
static void bias_gradient(void **state)
{
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols;
    clprune_context *context = test_context();
    const clprune_mat none = CLPRUNE_NO_MAT;
    float *h = test_new_uniform(24, -6, 6, count), *dg = test_new_normal(25, count);
    float *start = test_new_normal(26, s->cols);
    double *wide_h = layer_widen(count, h), *wide_dg = layer_widen(count, dg);
    double *dh_want = layer_new(count), *dh_bound = layer_new(count);
    double *db_want = layer_new(s->cols), *db_bound = layer_new(s->cols);
    gelu_ref_backward(count, wide_h, wide_dg, dh_want, dh_bound);
    ref_sums(s, dh_want, dh_bound, db_want, db_bound);
    test_mat in = test_mat_make(s->rows, s->cols, s->gap, h);
    test_mat gradient = test_mat_make(s->rows, s->cols, s->gap + 2, dg);
    test_mat dh = test_mat_make(s->rows, s->cols, s->gap + 1, NULL);
    test_mat plain = test_mat_make(s->rows, s->cols, 0, NULL);
    test_mat db = test_mat_make(1, s->cols, 0, NULL), again = test_mat_make(1, s->cols, 1, NULL);
    test_mat sum = test_mat_make(1, s->cols, 0, start);
    cl_event event = NULL;
    TEST_OK(clprune_gelu_backward(context, 0, in.mat, gradient.mat, plain.mat, none, NULL));
    TEST_OK(clprune_gelu_backward(context, 0, in.mat, gradient.mat, dh.mat, db.mat, &event));
    layer_event(event);
    layer_same("dh with db", &dh, &plain);
    layer_check("db", &db, db_want, db_bound, "backward");
    test_mat_unchanged(&in, "h");
    test_mat_unchanged(&gradient, "dg");
    const clprune_linear_desc desc = {.in = 1, .out = s->cols};
    clprune_linear *layer;
    TEST_OK(clprune_linear_create(context, &desc, &layer));
    TEST_OK(clprune_linear_backward(
        layer, 1, 0.0f, NULL, plain.mat, none, none, none, again.mat, NULL));
    clprune_linear_destroy(layer);
    layer_same("db of the linear layer", &db, &again);
    TEST_OK(clprune_gelu_backward(context, 1, in.mat, gradient.mat, in.mat, sum.mat, NULL));
    layer_same("dh over h", &in, &plain);
    ref_add(s->cols, start, db_want, db_bound);
    layer_check("db", &sum, db_want, db_bound, "backward, added");
    test_mat_set(&in, h);
    TEST_OK(clprune_gelu_backward(context, 0, in.mat, gradient.mat, gradient.mat, sum.mat, NULL));
    layer_same("dh over dg", &gradient, &plain);
    layer_same("db", &sum, &db);
}

/* g and dh have the bits of the two passes that they replace, db is the sum of dh; in place, and
 * added to. */
static void recompute(void **state)
{
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols;
    clprune_context *context = test_context();
    float *h = test_new_uniform(24, -6, 6, count), *dg = test_new_normal(25, count);
    float *start = test_new_normal(26, s->cols);
    double *wide_h = layer_widen(count, h), *wide_dg = layer_widen(count, dg);
    double *dh_want = layer_new(count), *dh_bound = layer_new(count);
    double *db_want = layer_new(s->cols), *db_bound = layer_new(s->cols);
    gelu_ref_backward(count, wide_h, wide_dg, dh_want, dh_bound);
    ref_sums(s, dh_want, dh_bound, db_want, db_bound);
    test_mat in = test_mat_make(s->rows, s->cols, s->gap, h);
    test_mat gradient = test_mat_make(s->rows, s->cols, s->gap + 2, dg);
    test_mat out[4]; /* g, dh by one pass, then by two */
    for (int i = 0; i < 4; i++)
        out[i] = test_mat_make(s->rows, s->cols, s->gap + 1, NULL);
    test_mat db = test_mat_make(1, s->cols, 0, NULL), sum = test_mat_make(1, s->cols, 0, start);
    cl_event event = NULL;
    TEST_OK(clprune_gelu_backward_recompute(
        context, 0, in.mat, gradient.mat, out[0].mat, out[1].mat, db.mat, &event));
    layer_event(event);
    TEST_OK(clprune_gelu_forward(context, in.mat, CLPRUNE_NO_MAT, out[2].mat, NULL));
    TEST_OK(
        clprune_gelu_backward(context, 0, in.mat, gradient.mat, out[3].mat, CLPRUNE_NO_MAT, NULL));
    layer_same("g", &out[0], &out[2]);
    layer_same("dh", &out[1], &out[3]);
    layer_check("db", &db, db_want, db_bound, "recompute");
    test_mat_unchanged(&in, "h");
    test_mat_unchanged(&gradient, "dg");
    TEST_OK(clprune_gelu_backward_recompute(
        context, 1, in.mat, gradient.mat, in.mat, gradient.mat, sum.mat, NULL));
    layer_same("g over h", &in, &out[2]);
    layer_same("dh over dg", &gradient, &out[3]);
    ref_add(s->cols, start, db_want, db_bound);
    layer_check("db", &sum, db_want, db_bound, "recompute, added");
}

/* Runs both directions on `count` numbers, with dg = 1, and compares. */
static void compare(size_t count, const float *h, const char *what)
{
    double *wide = layer_widen(count, h), *ones = layer_new(count);
    double *want = layer_new(count), *bound = layer_new(count);
    float *one = test_alloc(count * sizeof *one);
    for (size_t i = 0; i < count; i++)
        one[i] = 1, ones[i] = 1;
    test_mat in = test_mat_make(1, count, 0, h), gradient = test_mat_make(1, count, 0, one);
    test_mat out = test_mat_make(1, count, 0, NULL);
    gelu_ref_forward(count, wide, want, bound);
    TEST_OK(clprune_gelu_forward(test_context(), in.mat, CLPRUNE_NO_MAT, out.mat, NULL));
    layer_check("g", &out, want, bound, what);
    gelu_ref_backward(count, wide, ones, want, bound);
    TEST_OK(clprune_gelu_backward(
        test_context(), 0, in.mat, gradient.mat, out.mat, CLPRUNE_NO_MAT, NULL));
    layer_check("slope", &out, want, bound, what);
}

static void accuracy(void **state)
{
    (void)state;
    enum { COUNT = 65536 };
    static float h[COUNT];
    for (int i = 0; i < COUNT; i++)
        h[i] = -16.0f + 32.0f * (float)i / COUNT;
    compare(COUNT, h, "evenly from -16 to 16");
    for (int i = 0; i < COUNT; i++)
        h[i] = ldexpf(i % 2 == 0 ? 1.3f : -1.3f, -140 + i / 2 % 150);
    compare(COUNT, h, "powers of two");
}

static void special_values(void **state)
{
    (void)state;
    static const float h[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0f, -0.0f, 1e30f, -1e30f, 1e-45f,
        -1e-45f, 3.4e38f, -3.4e38f, 15.0f, -15.0f, 15.1f, -15.1f, 1.0f};
    enum { COUNT = sizeof h / sizeof h[0] };
    compare(COUNT, h, "special values");
    /* Each alone, as a last column, and with a NaN beside it that must not spread. */
    for (size_t i = 0; i < COUNT; i++) {
        const float pair[2] = {h[i], i % 2 == 0 ? NAN : 2.0f};
        compare(1, pair, "one special value");
        compare(2, pair, "a special value and its neighbour");
    }
}

static double loss_ref(void *user, const double *h)
{
    const size_t count = *(const size_t *)user;
    double *g = layer_new(count), loss = 0;
    gelu_ref_forward(count, h, g, NULL);
    for (size_t i = 0; i < count; i++)
        loss += g[i];
    return loss;
}

static double loss_device(void *user, const double *h)
{
    const size_t count = *(const size_t *)user;
    float *narrow = layer_narrow(count, h);
    test_mat m = test_mat_make(1, count, 0, narrow);
    TEST_OK(clprune_gelu_forward(test_context(), m.mat, CLPRUNE_NO_MAT, m.mat, NULL));
    float *g = test_mat_get(&m, "g");
    double loss = 0;
    for (size_t i = 0; i < count; i++)
        loss += (double)g[i];
    return loss;
}

static void slopes(void **state)
{
    (void)state;
    size_t count = 203;
    float *h = test_new_uniform(23, -4, 4, count);
    double *wide = layer_widen(count, h), *ones = layer_new(count), *grad = layer_new(count);
    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    gelu_ref_backward(count, wide, ones, grad, NULL);
    layer_slopes("reference", loss_ref, &count, count, wide, grad, 1e-4, 1e-7);
    layer_slopes("device", loss_device, &count, count, wide, grad, 1e-2, 1e-3);
}

typedef struct biased_inputs {
    size_t rows, cols;
    const float *h, *dg;
} biased_inputs;

/* sum dg * gelu(h + b) as a function of b, on the device. */
static double bias_loss(void *user, const double *b)
{
    const biased_inputs *s = user;
    float *narrow = layer_narrow(s->cols, b);
    test_mat h = test_mat_make(s->rows, s->cols, 0, s->h);
    test_mat bias = test_mat_make(1, s->cols, 0, narrow);
    TEST_OK(clprune_gelu_forward(test_context(), h.mat, bias.mat, h.mat, NULL));
    float *g = test_mat_get(&h, "g");
    double loss = 0;
    for (size_t i = 0; i < s->rows * s->cols; i++)
        loss += (double)s->dg[i] * (double)g[i];
    return loss;
}

static void bias_slopes(void **state)
{
    (void)state;
    enum { ROWS = 60, COLS = 9 };
    float *h = test_new_normal(43, ROWS * COLS), *dg = test_new_normal(44, ROWS * COLS);
    biased_inputs s = {ROWS, COLS, h, dg};
    const double b[COLS] = {0};
    test_mat in = test_mat_make(ROWS, COLS, 0, h), dh = test_mat_make(ROWS, COLS, 0, dg);
    test_mat db = test_mat_make(1, COLS, 0, NULL);
    TEST_OK(clprune_gelu_backward(test_context(), 0, in.mat, dh.mat, dh.mat, db.mat, NULL));
    float *got = test_mat_get(&db, "db");
    double *grad = layer_widen(COLS, got);
    layer_slopes("db", bias_loss, &s, COLS, b, grad, 1e-2, 1e-3);
}

static void invalid(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat h = test_mat_make(4, 6, 0, NULL), g = test_mat_make(4, 6, 0, NULL);
    test_mat narrow = test_mat_make(4, 5, 0, NULL), dg = test_mat_make(4, 6, 0, NULL);
    clprune_mat shifted = h.mat, shifted_dg = dg.mat;
    shifted.offset += 1;
    shifted_dg.offset += 1;
    cl_event event = NULL;
    const clprune_mat none = CLPRUNE_NO_MAT, in_h = clprune_mat_rows(h.mat, 2, 1);
    test_mat dh = test_mat_make(4, 6, 0, NULL), db = test_mat_make(1, 6, 0, NULL);
    const clprune_mat row = clprune_mat_rows(dh.mat, 1, 1), in_g = clprune_mat_rows(g.mat, 3, 1);
#define FORWARD(...) clprune_gelu_forward(__VA_ARGS__, &event)
    assert_int_equal(FORWARD(NULL, h.mat, none, g.mat), bad);
    TEST_FAILS(FORWARD(context, h.mat, none, narrow.mat), size, "g is");
    TEST_FAILS(FORWARD(context, h.mat, none, shifted), bad, "g overlaps h");
    TEST_FAILS(FORWARD(context, h.mat, narrow.mat, g.mat), size, "b is");
    TEST_FAILS(FORWARD(context, h.mat, in_h, g.mat), bad, "h overlaps b");
    TEST_FAILS(FORWARD(context, h.mat, in_g, g.mat), bad, "g overlaps b");
#define BACKWARD(...) clprune_gelu_backward(__VA_ARGS__, &event)
    assert_int_equal(BACKWARD(NULL, 0, h.mat, dg.mat, g.mat, none), bad);
    TEST_FAILS(BACKWARD(context, 0, h.mat, narrow.mat, g.mat, none), size, "dg is");
    TEST_FAILS(BACKWARD(context, 0, h.mat, dg.mat, narrow.mat, none), size, "dh is");
    TEST_FAILS(BACKWARD(context, 0, h.mat, dg.mat, shifted, none), bad, "dh overlaps h");
    TEST_FAILS(BACKWARD(context, 0, h.mat, dg.mat, shifted_dg, none), bad, "dh overlaps dg");
    TEST_FAILS(BACKWARD(context, 1, h.mat, dg.mat, dh.mat, narrow.mat), size, "db is");
    TEST_FAILS(BACKWARD(context, 1, h.mat, dg.mat, dh.mat, in_h), bad, "db overlaps h");
    TEST_FAILS(BACKWARD(context, 1, h.mat, g.mat, dh.mat, in_g), bad, "db overlaps dg");
    TEST_FAILS(BACKWARD(context, 1, h.mat, dg.mat, dh.mat, row), bad, "db overlaps dh");
#define RECOMPUTE(...) clprune_gelu_backward_recompute(__VA_ARGS__, &event)
    assert_int_equal(RECOMPUTE(NULL, 0, h.mat, dg.mat, g.mat, dh.mat, db.mat), bad);
    TEST_FAILS(RECOMPUTE(context, 0, h.mat, narrow.mat, g.mat, dh.mat, db.mat), size, "dg is");
    TEST_FAILS(RECOMPUTE(context, 0, h.mat, dg.mat, narrow.mat, dh.mat, db.mat), size, "g is");
    TEST_FAILS(RECOMPUTE(context, 0, h.mat, dg.mat, g.mat, narrow.mat, db.mat), size, "dh is");
    TEST_FAILS(RECOMPUTE(context, 0, h.mat, dg.mat, g.mat, dh.mat, h.mat), size, "db is");
    TEST_FAILS(RECOMPUTE(context, 0, h.mat, dg.mat, shifted, dh.mat, db.mat), bad, "g overlaps h");
    TEST_FAILS(
        RECOMPUTE(context, 0, h.mat, dg.mat, g.mat, shifted_dg, db.mat), bad, "dh overlaps dg");
    TEST_FAILS(RECOMPUTE(context, 0, h.mat, dg.mat, dg.mat, dh.mat, db.mat), bad, "g overlaps");
    TEST_FAILS(RECOMPUTE(context, 0, h.mat, dg.mat, g.mat, h.mat, db.mat), bad, "dh overlaps");
    TEST_FAILS(RECOMPUTE(context, 0, h.mat, dg.mat, g.mat, g.mat, db.mat), bad, "dh overlaps");
    TEST_FAILS(RECOMPUTE(context, 0, h.mat, dg.mat, g.mat, dh.mat, row), bad, "db overlaps dh");
    assert_null(event);
    test_mat *mats[] = {&h, &g, &narrow, &dg, &dh, &db};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
}

int main(void)
{
    test_list list = {0};
    layer_add_shapes(&list, values, "values");
    layer_add_shapes(&list, bias, "bias");
    layer_add_shapes(&list, bias_gradient, "bias gradient");
    layer_add_shapes(&list, recompute, "recompute");
    test_add(&list, accuracy, NULL, "accuracy");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, bias_slopes, NULL, "slopes of the bias gradient");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("gelu", &list);
}
