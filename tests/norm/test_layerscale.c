/* LayerScale: values over all shapes, derivatives, aliasing, repeatability, invalid arguments. */
#include "ref/layerscale_ref.h"
#include "support/test_layer.h"

typedef struct inputs {
    size_t rows, cols, count; /* count: rows * cols */
    float *x, *t, *ls, *dy;
    double *wide_x, *wide_t, *wide_ls, *wide_dy;
} inputs;

static inputs inputs_new(size_t rows, size_t cols)
{
    inputs in = {.rows = rows, .cols = cols, .count = rows * cols};
    in.x = test_new_normal(31, in.count);
    in.t = test_new_normal(32, in.count);
    in.ls = test_new_uniform(33, -1, 1, cols);
    in.dy = test_new_normal(34, in.count);
    in.wide_x = layer_widen(in.count, in.x);
    in.wide_t = layer_widen(in.count, in.t);
    in.wide_ls = layer_widen(cols, in.ls);
    in.wide_dy = layer_widen(in.count, in.dy);
    return in;
}

/* Into a matrix of its own, over x and over t. */
static void forward(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    inputs in = inputs_new(s->rows, s->cols);
    double *want = layer_new(in.count), *bound = layer_new(in.count);
    layerscale_ref_forward(s->rows, s->cols, in.wide_x, in.wide_t, in.wide_ls, want, bound);
    test_mat x = test_mat_make(s->rows, s->cols, s->gap, in.x);
    test_mat t = test_mat_make(s->rows, s->cols, s->gap + 1, in.t);
    test_mat ls = test_mat_make(1, s->cols, 0, in.ls);
    test_mat y = test_mat_make(s->rows, s->cols, s->gap + 2, NULL);
    cl_event event = NULL;
    TEST_OK(clprune_layerscale_forward(context, x.mat, t.mat, ls.mat, y.mat, &event));
    layer_event(event);
    layer_check("y", &y, want, bound, "forward");
    test_mat_unchanged(&x, "x");
    test_mat_unchanged(&t, "t");
    TEST_OK(clprune_layerscale_forward(context, x.mat, t.mat, ls.mat, x.mat, NULL));
    layer_same("y over x", &x, &y);
    test_mat_set(&x, in.x);
    TEST_OK(clprune_layerscale_forward(context, x.mat, t.mat, ls.mat, t.mat, NULL));
    layer_same("y over t", &t, &y);
    test_mat_unchanged(&x, "x");
    test_mat_unchanged(&ls, "ls");
}

static void backward(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    inputs in = inputs_new(s->rows, s->cols);
    double *dt_want = layer_new(in.count), *dt_bound = layer_new(in.count);
    double *dls_want = layer_new(s->cols), *dls_bound = layer_new(s->cols);
    layerscale_ref_dt(s->rows, s->cols, in.wide_ls, in.wide_dy, dt_want, dt_bound);
    layerscale_ref_dls(s->rows, s->cols, in.wide_t, in.wide_dy, dls_want, dls_bound);
    test_mat t = test_mat_make(s->rows, s->cols, s->gap, in.t);
    test_mat ls = test_mat_make(1, s->cols, 0, in.ls);
    test_mat dy = test_mat_make(s->rows, s->cols, s->gap + 1, in.dy);
    test_mat dt = test_mat_make(s->rows, s->cols, s->gap + 2, NULL);
    test_mat dls = test_mat_make(1, s->cols, 0, NULL), dls2 = test_mat_make(1, s->cols, 3, NULL);
    cl_event event = NULL;
    const clprune_mat none = CLPRUNE_NO_MAT;
    TEST_OK(clprune_layerscale_backward(
        context, 0, t.mat, ls.mat, dy.mat, dt.mat, dls.mat, none, none, &event));
    layer_event(event);
    layer_check("dt", &dt, dt_want, dt_bound, "backward");
    layer_check("dls", &dls, dls_want, dls_bound, "backward");
    test_mat_unchanged(&t, "t");
    TEST_OK(clprune_layerscale_backward(
        context, 0, t.mat, ls.mat, dy.mat, t.mat, dls2.mat, none, none, NULL));
    layer_same("dt over t", &dt, &t);
    layer_same("dls", &dls, &dls2);
    test_mat_unchanged(&dy, "dy");
    test_mat_unchanged(&ls, "ls");
}

/* --- With the bias gradient of the layer below --- */

/* Divisors of the rows, up to all of them. */
static size_t tokens_of(size_t rows)
{
    static const size_t some[] = {100, 75, 12, 8, 7};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        if (rows % some[i] == 0)
            return some[i];
    return 1;
}

/* db and db_tokens are sums of dt; dt and dls have the bits of the pass without them, and db those
 * of the linear layer's pass over dt. */
static void bias_gradients(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    const clprune_mat none = CLPRUNE_NO_MAT;
    const size_t tokens = tokens_of(s->rows);
    inputs in = inputs_new(s->rows, s->cols);
    double *dt_want = layer_new(in.count), *dt_bound = layer_new(in.count);
    double *want[2] = {layer_new(s->cols), layer_new(tokens)};
    double *bound[2] = {layer_new(s->cols), layer_new(tokens)};
    double *size[2] = {layer_new(s->cols), layer_new(tokens)};
    layerscale_ref_dt(s->rows, s->cols, in.wide_ls, in.wide_dy, dt_want, dt_bound);
    for (size_t i = 0; i < in.count; i++) {
        const size_t at[2] = {i % s->cols, i / s->cols % tokens};
        for (int k = 0; k < 2; k++) {
            want[k][at[k]] += dt_want[i];
            size[k][at[k]] += fabs(dt_want[i]);
            bound[k][at[k]] += dt_bound[i];
        }
    }
    for (size_t c = 0; c < s->cols; c++)
        bound[0][c] += test_bound(s->rows, size[0][c], want[0][c]);
    for (size_t q = 0; q < tokens; q++)
        bound[1][q] += test_bound(s->rows / tokens * s->cols, size[1][q], want[1][q]);
    test_mat t = test_mat_make(s->rows, s->cols, s->gap, in.t);
    test_mat ls = test_mat_make(1, s->cols, 0, in.ls);
    test_mat dy = test_mat_make(s->rows, s->cols, s->gap + 1, in.dy);
    test_mat dt[2], dls[4], db[3], db_tokens[2];
    for (int i = 0; i < 4; i++)
        dls[i] = test_mat_make(1, s->cols, 0, NULL);
    for (int i = 0; i < 3; i++)
        db[i] = test_mat_make(1, s->cols, 2, NULL);
    for (int i = 0; i < 2; i++) {
        dt[i] = test_mat_make(s->rows, s->cols, s->gap + 2, NULL);
        db_tokens[i] = test_mat_make(1, tokens, 1, NULL);
    }
    cl_event event = NULL;
#define BACKWARD(...) TEST_OK(clprune_layerscale_backward(context, 0, __VA_ARGS__))
    BACKWARD(t.mat, ls.mat, dy.mat, dt[0].mat, dls[0].mat, none, none, NULL);
    BACKWARD(t.mat, ls.mat, dy.mat, dt[1].mat, dls[1].mat, db[0].mat, none, &event);
    layer_event(event);
    layer_same("dt with db", &dt[0], &dt[1]);
    layer_check("db", &db[0], want[0], bound[0], "columns");
    BACKWARD(t.mat, ls.mat, dy.mat, dt[1].mat, dls[2].mat, none, db_tokens[0].mat, &event);
    layer_event(event);
    layer_same("dt with db_tokens", &dt[0], &dt[1]);
    layer_check("db_tokens", &db_tokens[0], want[1], bound[1], "tokens");
    test_mat_unchanged(&t, "t");
    BACKWARD(t.mat, ls.mat, dy.mat, t.mat, dls[3].mat, db[1].mat, db_tokens[1].mat, NULL);
    layer_same("dt over t", &dt[0], &t);
#undef BACKWARD
    for (int i = 1; i < 4; i++)
        layer_same("dls", &dls[0], &dls[i]);
    layer_same("db", &db[0], &db[1]);
    layer_same("db_tokens", &db_tokens[0], &db_tokens[1]);
    test_mat_unchanged(&dy, "dy");
    const clprune_linear_desc desc = {.in = 1, .out = s->cols};
    clprune_linear *layer;
    TEST_OK(clprune_linear_create(context, &desc, &layer));
    TEST_OK(clprune_linear_backward(
        layer, 1, 0.0f, NULL, dt[0].mat, none, none, none, db[2].mat, NULL));
    clprune_linear_destroy(layer);
    layer_same("db of the linear layer", &db[0], &db[2]);
}

/* sum dy * y as a function of x, t and ls, one after the other. */
static double loss_ref(void *user, const double *theta)
{
    const inputs *in = user;
    double *y = layer_new(in->count), loss = 0;
    layerscale_ref_forward(
        in->rows, in->cols, theta, theta + in->count, theta + 2 * in->count, y, NULL);
    for (size_t i = 0; i < in->count; i++)
        loss += in->wide_dy[i] * y[i];
    return loss;
}

static double loss_device(void *user, const double *theta)
{
    const inputs *in = user;
    float *narrow = layer_narrow(2 * in->count + in->cols, theta);
    test_mat x = test_mat_make(in->rows, in->cols, 0, narrow);
    test_mat t = test_mat_make(in->rows, in->cols, 0, narrow + in->count);
    test_mat ls = test_mat_make(1, in->cols, 0, narrow + 2 * in->count);
    TEST_OK(clprune_layerscale_forward(test_context(), x.mat, t.mat, ls.mat, x.mat, NULL));
    float *y = test_mat_get(&x, "y");
    double loss = 0;
    for (size_t i = 0; i < in->count; i++)
        loss += in->wide_dy[i] * (double)y[i];
    return loss;
}

static void slopes(void **state)
{
    (void)state;
    inputs in = inputs_new(9, 21);
    const size_t total = 2 * in.count + in.cols;
    double *theta = layer_new(total), *grad = layer_new(total);
    memcpy(theta, in.wide_x, in.count * sizeof *theta);
    memcpy(theta + in.count, in.wide_t, in.count * sizeof *theta);
    memcpy(theta + 2 * in.count, in.wide_ls, in.cols * sizeof *theta);
    memcpy(grad, in.wide_dy, in.count * sizeof *grad); /* dx is dy */
    layerscale_ref_dt(in.rows, in.cols, in.wide_ls, in.wide_dy, grad + in.count, NULL);
    layerscale_ref_dls(in.rows, in.cols, in.wide_t, in.wide_dy, grad + 2 * in.count, NULL);
    layer_slopes("reference", loss_ref, &in, total, theta, grad, 1e-4, 1e-8);
    layer_slopes("device", loss_device, &in, total, theta, grad, 1e-2, 1e-3);
}

/* The first elements of a row. */
static clprune_mat first_of(clprune_mat mat, size_t cols)
{
    mat = clprune_mat_rows(mat, 0, 1);
    mat.cols = cols;
    return mat;
}

/* sum dy * y as a function of b, then b_tokens, added to t; in->rows / SAMPLES tokens. */
enum { SAMPLES = 3 };

static double bias_loss(void *user, const double *b)
{
    const inputs *in = user;
    const size_t tokens = in->rows / SAMPLES;
    double *t = layer_new(in->count), *y = layer_new(in->count), loss = 0;
    for (size_t i = 0; i < in->count; i++)
        t[i] = in->wide_t[i] + b[i % in->cols] + b[in->cols + i / in->cols % tokens];
    layerscale_ref_forward(in->rows, in->cols, in->wide_x, t, in->wide_ls, y, NULL);
    for (size_t i = 0; i < in->count; i++)
        loss += in->wide_dy[i] * y[i];
    return loss;
}

static void bias_slopes(void **state)
{
    (void)state;
    enum { TOKENS = 7, COLS = 21 };
    inputs in = inputs_new(SAMPLES * TOKENS, COLS);
    const double b[COLS + TOKENS] = {0};
    test_mat t = test_mat_make(in.rows, COLS, 0, in.t), ls = test_mat_make(1, COLS, 0, in.ls);
    test_mat dy = test_mat_make(in.rows, COLS, 0, in.dy), dls = test_mat_make(1, COLS, 0, NULL);
    test_mat out = test_mat_make(1, COLS + TOKENS, 0, NULL); /* db, then db_tokens */
    clprune_mat db = out.mat, db_tokens = out.mat;
    db.cols = COLS;
    db_tokens.cols = TOKENS;
    db_tokens.offset += COLS;
    TEST_OK(clprune_layerscale_backward(
        test_context(), 0, t.mat, ls.mat, dy.mat, t.mat, dls.mat, db, db_tokens, NULL));
    float *got = test_mat_get(&out, "db and db_tokens");
    double *grad = layer_widen(COLS + TOKENS, got);
    layer_slopes("db", bias_loss, &in, COLS + TOKENS, b, grad, 1e-4, 1e-6);
}

static void invalid(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat x = test_mat_make(4, 6, 0, NULL), t = test_mat_make(4, 6, 0, NULL);
    test_mat y = test_mat_make(4, 6, 0, NULL), ls = test_mat_make(1, 6, 0, NULL);
    test_mat dls = test_mat_make(1, 6, 0, NULL), db = test_mat_make(1, 6, 0, NULL);
    const clprune_mat none = CLPRUNE_NO_MAT;
    test_mat narrow = test_mat_make(4, 5, 0, NULL), short_row = test_mat_make(1, 5, 0, NULL);
    clprune_mat shifted_x = x.mat, shifted_t = t.mat;
    shifted_x.offset += 1;
    shifted_t.offset += 1;
    clprune_mat inside = clprune_mat_rows(t.mat, 2, 1);
    cl_event event = NULL;
#define FORWARD(...) clprune_layerscale_forward(__VA_ARGS__, &event)
    assert_int_equal(FORWARD(NULL, x.mat, t.mat, ls.mat, y.mat), bad);
    TEST_FAILS(FORWARD(context, x.mat, narrow.mat, ls.mat, y.mat), size, "t is");
    TEST_FAILS(FORWARD(context, x.mat, t.mat, short_row.mat, y.mat), size, "ls is");
    TEST_FAILS(FORWARD(context, x.mat, t.mat, ls.mat, narrow.mat), size, "y is");
    TEST_FAILS(FORWARD(context, x.mat, t.mat, ls.mat, shifted_x), bad, "y overlaps x");
    TEST_FAILS(FORWARD(context, x.mat, t.mat, ls.mat, shifted_t), bad, "y overlaps t");
    TEST_FAILS(FORWARD(context, x.mat, t.mat, inside, t.mat), bad, "y overlaps ls");
#define BACKWARD(...) clprune_layerscale_backward(__VA_ARGS__, none, none, &event)
    assert_int_equal(BACKWARD(NULL, 0, t.mat, ls.mat, y.mat, x.mat, dls.mat), bad);
    TEST_FAILS(BACKWARD(context, 0, t.mat, short_row.mat, y.mat, x.mat, dls.mat), size, "ls is");
    TEST_FAILS(BACKWARD(context, 0, t.mat, ls.mat, narrow.mat, x.mat, dls.mat), size, "dy is");
    TEST_FAILS(BACKWARD(context, 0, t.mat, ls.mat, y.mat, narrow.mat, dls.mat), size, "dt is");
    TEST_FAILS(BACKWARD(context, 0, t.mat, ls.mat, y.mat, x.mat, short_row.mat), size, "dls is");
    TEST_FAILS(
        BACKWARD(context, 0, t.mat, ls.mat, y.mat, shifted_t, dls.mat), bad, "dt overlaps t");
    TEST_FAILS(BACKWARD(context, 0, t.mat, ls.mat, y.mat, y.mat, dls.mat), bad, "dt overlaps dy");
    TEST_FAILS(BACKWARD(context, 0, t.mat, inside, y.mat, t.mat, dls.mat), bad, "dt overlaps ls");
    TEST_FAILS(BACKWARD(context, 0, t.mat, ls.mat, y.mat, x.mat, inside), bad, "dls overlaps t");
    TEST_FAILS(BACKWARD(context, 0, t.mat, ls.mat, y.mat, x.mat, ls.mat), bad, "dls overlaps ls");
    TEST_FAILS(BACKWARD(context, 0, t.mat, ls.mat, y.mat, x.mat, clprune_mat_rows(y.mat, 0, 1)),
        bad, "dls overlaps dy");
    TEST_FAILS(BACKWARD(context, 0, t.mat, ls.mat, y.mat, x.mat, clprune_mat_rows(x.mat, 3, 1)),
        bad, "dls overlaps dt");
#undef BACKWARD
#define BACKWARD(...)                                                                              \
    clprune_layerscale_backward(                                                                   \
        context, 0, t.mat, ls.mat, y.mat, x.mat, dls.mat, __VA_ARGS__, &event)
    TEST_FAILS(BACKWARD(short_row.mat, none), size, "db is");
    TEST_FAILS(BACKWARD(ls.mat, none), bad, "db overlaps ls");
    TEST_FAILS(BACKWARD(inside, none), bad, "db overlaps t");
    TEST_FAILS(BACKWARD(clprune_mat_rows(x.mat, 1, 1), none), bad, "db overlaps dt");
    TEST_FAILS(BACKWARD(clprune_mat_rows(y.mat, 1, 1), none), bad, "db overlaps dy");
    TEST_FAILS(BACKWARD(dls.mat, none), bad, "db overlaps dls");
    TEST_FAILS(BACKWARD(none, narrow.mat), size, "db_tokens is");
    TEST_FAILS(BACKWARD(none, short_row.mat), size,
        "db_tokens has 5 columns, expected a divisor of the 4 rows");
    TEST_FAILS(BACKWARD(none, first_of(db.mat, 3)), size, "db_tokens has 3 columns");
    TEST_FAILS(BACKWARD(none, first_of(db.mat, 0)), size, "db_tokens has 0 columns");
    TEST_FAILS(BACKWARD(db.mat, first_of(db.mat, 2)), bad, "db_tokens overlaps db");
    TEST_FAILS(BACKWARD(none, first_of(y.mat, 4)), bad, "db_tokens overlaps dy");
    TEST_FAILS(BACKWARD(none, first_of(dls.mat, 1)), bad, "db_tokens overlaps dls");
    assert_null(event);
    test_mat *mats[] = {&x, &t, &y, &ls, &dls, &db, &narrow, &short_row};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
}

/* ---- without the branch's last linear layer: y = x + ls * (g w^T + b) --------------------------
 */

/* w, product and dw have the shape; b, ls, sums one element per row. */
static void product(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    const size_t rows = s->rows, cols = s->cols, count = rows * cols;
    float *w = test_new_normal(35, count), *p = test_new_normal(36, count);
    float *b = test_new_normal(37, rows), *ls = test_new_uniform(38, -1, 1, rows);
    float *sums = test_new_normal(39, rows);
    double *wide[] = {layer_widen(count, w), layer_widen(count, p), layer_widen(rows, b),
        layer_widen(rows, ls), layer_widen(rows, sums)};
    double *dls_want = layer_new(rows), *dls_bound = layer_new(rows);
    double *want = layer_new(count), *bound = layer_new(count);
    double *scaled_want = layer_new(count), *scaled_bound = layer_new(count);
    double *db_want = layer_new(rows), *db_bound = layer_new(rows);
    layerscale_ref_product(rows, cols, wide[0], wide[2], wide[1], wide[4], dls_want, dls_bound);
    for (size_t r = 0; r < rows; r++) {
        layerscale_ref_dt(1, 1, wide[3] + r, wide[4] + r, db_want + r, db_bound + r);
        for (size_t i = r * cols; i < (r + 1) * cols; i++) {
            layerscale_ref_dt(1, 1, wide[3] + r, wide[1] + i, want + i, bound + i);
            layerscale_ref_dt(1, 1, wide[3] + r, wide[0] + i, scaled_want + i, scaled_bound + i);
        }
    }
    test_mat mw = test_mat_make(rows, cols, s->gap, w), mls = test_mat_make(1, rows, 0, ls);
    test_mat mb = test_mat_make(1, rows, 1, b), dls = test_mat_make(1, rows, 0, NULL);
    test_mat dw = test_mat_make(rows, cols, s->gap + 2, p), db = test_mat_make(1, rows, 0, sums);
    test_mat scaled = test_mat_make(rows, cols, s->gap + 1, NULL);
    cl_event event = NULL;
    TEST_OK(clprune_layerscale_weights(context, mls.mat, mw.mat, scaled.mat, &event));
    layer_event(event);
    layer_check("scaled", &scaled, scaled_want, scaled_bound, "weights");
    TEST_OK(clprune_layerscale_backward_product(
        context, 0, mw.mat, mb.mat, mls.mat, dls.mat, dw.mat, db.mat, &event));
    layer_event(event);
    layer_check("dls", &dls, dls_want, dls_bound, "product");
    layer_check("dw", &dw, want, bound, "product");
    layer_check("db", &db, db_want, db_bound, "product");
    test_mat_unchanged(&mw, "w");
    test_mat_unchanged(&mb, "b");
    TEST_OK(clprune_layerscale_weights(context, mls.mat, mw.mat, mw.mat, NULL));
    layer_same("scaled over w", &mw, &scaled);
    test_mat_unchanged(&mls, "ls");
}

/* sum dy * ls * (g w^T + b) as a function of w, b and ls; user: g, then dy. */
static double product_loss(void *user, const double *theta)
{
    const double *g = user, *dy = g + LAYER_ROWS * LAYER_IN;
    const double *b = theta + LAYER_W, *ls = b + LAYER_OUT;
    double loss = 0;
    for (size_t r = 0; r < LAYER_ROWS; r++)
        for (size_t o = 0; o < LAYER_OUT; o++) {
            double t = b[o];
            for (size_t i = 0; i < LAYER_IN; i++)
                t += g[r * LAYER_IN + i] * theta[o * LAYER_IN + i];
            loss += dy[r * LAYER_OUT + o] * ls[o] * t;
        }
    return loss;
}

/* The device's gradients from dy^T g against differences of the loss. */
static void product_slopes(void **state)
{
    (void)state;
    layer_product p = layer_product_new(40, 2 * LAYER_OUT, NULL);
    test_mat in[] = {test_mat_make(LAYER_OUT, LAYER_IN, 0, p.theta),
        test_mat_make(1, LAYER_OUT, 0, p.theta + LAYER_W),
        test_mat_make(1, LAYER_OUT, 0, p.theta + LAYER_W + LAYER_OUT)};
    test_mat out[] = {test_mat_make(LAYER_OUT, LAYER_IN, 0, p.dw),
        test_mat_make(1, LAYER_OUT, 0, p.sums), test_mat_make(1, LAYER_OUT, 0, NULL)};
    TEST_OK(clprune_layerscale_backward_product(test_context(), 0, in[0].mat, in[1].mat, in[2].mat,
        out[2].mat, out[0].mat, out[1].mat, NULL));
    layer_product_slopes(&p, product_loss, out);
}

static void product_invalid(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat w = test_mat_make(4, 6, 0, NULL), dw = test_mat_make(4, 6, 0, NULL);
    test_mat b = test_mat_make(1, 4, 0, NULL), ls = test_mat_make(1, 4, 0, NULL);
    test_mat db = test_mat_make(1, 4, 0, NULL), dls = test_mat_make(1, 4, 0, NULL);
    test_mat other = test_mat_make(2, 3, 0, NULL);
    clprune_mat shifted = w.mat, inside = dw.mat;
    shifted.offset += 1;
    inside.rows = 1;
    inside.cols = 4;
    cl_event event = NULL;
#define WEIGHTS(...) clprune_layerscale_weights(__VA_ARGS__, &event)
    assert_int_equal(WEIGHTS(NULL, ls.mat, w.mat, dw.mat), bad);
    TEST_FAILS(WEIGHTS(context, other.mat, w.mat, dw.mat), size, "ls is");
    TEST_FAILS(WEIGHTS(context, ls.mat, w.mat, other.mat), size, "scaled is");
    TEST_FAILS(WEIGHTS(context, ls.mat, w.mat, shifted), bad, "scaled overlaps w");
    TEST_FAILS(WEIGHTS(context, inside, w.mat, dw.mat), bad, "scaled overlaps ls");
#define PRODUCT(...) clprune_layerscale_backward_product(__VA_ARGS__, &event)
    assert_int_equal(PRODUCT(NULL, 0, w.mat, b.mat, ls.mat, dls.mat, dw.mat, db.mat), bad);
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, other.mat, ls.mat, dls.mat, dw.mat, db.mat), size, "b is");
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, b.mat, other.mat, dls.mat, dw.mat, db.mat), size, "ls is");
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, b.mat, ls.mat, other.mat, dw.mat, db.mat), size, "dls is");
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, b.mat, ls.mat, dls.mat, other.mat, db.mat), size, "dw is");
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, b.mat, ls.mat, dls.mat, dw.mat, other.mat), size, "db is");
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, b.mat, ls.mat, ls.mat, dw.mat, db.mat), bad, "dls overlaps");
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, b.mat, ls.mat, dls.mat, w.mat, db.mat), bad, "dw overlaps w");
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, b.mat, ls.mat, dls.mat, dw.mat, inside), bad, "db overlaps");
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, b.mat, ls.mat, dls.mat, dw.mat, dls.mat), bad, "db overlaps");
    assert_null(event);
    test_mat *mats[] = {&w, &dw, &b, &ls, &db, &dls, &other};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
}

int main(void)
{
    test_list list = {0};
    layer_add_shapes(&list, forward, "forward");
    layer_add_shapes(&list, backward, "backward");
    layer_add_shapes(&list, bias_gradients, "bias gradients");
    layer_add_shapes(&list, product, "product");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, bias_slopes, NULL, "slopes of the bias gradients");
    test_add(&list, product_slopes, NULL, "slopes of the product");
    test_add(&list, product_invalid, NULL, "invalid arguments of the product");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("layerscale", &list);
}
