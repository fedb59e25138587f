/* Affine: values over all shapes, derivatives, aliasing, repeatability, invalid arguments. */
#include "ref/affine_ref.h"
#include "support/test_layer.h"

typedef struct inputs {
    size_t rows, cols, count; /* count: rows * cols */
    float *x, *alpha, *beta, *dy;
    double *wide_x, *wide_alpha, *wide_beta, *wide_dy;
} inputs;

static inputs inputs_new(size_t rows, size_t cols)
{
    inputs in = {.rows = rows, .cols = cols, .count = rows * cols};
    in.x = test_new_normal(11, in.count);
    in.alpha = test_new_uniform(12, 0.5f, 1.5f, cols);
    in.beta = test_new_normal(13, cols);
    in.dy = test_new_normal(14, in.count);
    in.wide_x = layer_widen(in.count, in.x);
    in.wide_alpha = layer_widen(cols, in.alpha);
    in.wide_beta = layer_widen(cols, in.beta);
    in.wide_dy = layer_widen(in.count, in.dy);
    return in;
}

static void forward(void **state)
{
    const layer_shape *s = *state;
    inputs in = inputs_new(s->rows, s->cols);
    double *want = layer_new(in.count), *bound = layer_new(in.count);
    affine_ref_forward(s->rows, s->cols, in.wide_x, in.wide_alpha, in.wide_beta, want, bound);
    test_mat x = test_mat_make(s->rows, s->cols, s->gap, in.x);
    test_mat alpha = test_mat_make(1, s->cols, 0, in.alpha);
    test_mat beta = test_mat_make(1, s->cols, 0, in.beta);
    test_mat y = test_mat_make(s->rows, s->cols, s->gap + 3, NULL);
    cl_event event = NULL;
    TEST_OK(clprune_affine_forward(test_context(), x.mat, alpha.mat, beta.mat, y.mat, &event));
    layer_event(event);
    layer_check("y", &y, want, bound, "forward");
    test_mat_unchanged(&x, "x");
    TEST_OK(clprune_affine_forward(test_context(), x.mat, alpha.mat, beta.mat, x.mat, NULL));
    layer_check("y", &x, want, bound, "forward in place");
    test_mat_unchanged(&alpha, "alpha");
    test_mat_unchanged(&beta, "beta");
}

/* In place, and with the same bits a second time. */
static void backward(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    inputs in = inputs_new(s->rows, s->cols);
    double *dx_want = layer_new(in.count), *dx_bound = layer_new(in.count);
    double *dalpha_want = layer_new(s->cols), *dalpha_bound = layer_new(s->cols);
    double *dbeta_want = layer_new(s->cols), *dbeta_bound = layer_new(s->cols);
    affine_ref_dx(s->rows, s->cols, in.wide_alpha, in.wide_dy, NULL, dx_want, dx_bound);
    affine_ref_dalpha(s->rows, s->cols, in.wide_x, in.wide_dy, dalpha_want, dalpha_bound);
    affine_ref_dbeta(s->rows, s->cols, in.wide_dy, dbeta_want, dbeta_bound);
    test_mat x = test_mat_make(s->rows, s->cols, s->gap, in.x);
    test_mat alpha = test_mat_make(1, s->cols, 0, in.alpha);
    test_mat dy = test_mat_make(s->rows, s->cols, s->gap + 1, in.dy);
    test_mat dx = test_mat_make(s->rows, s->cols, s->gap + 2, NULL);
    test_mat dalpha = test_mat_make(1, s->cols, 0, NULL),
             dbeta = test_mat_make(1, s->cols, 0, NULL);
    test_mat dalpha2 = test_mat_make(1, s->cols, 5, NULL);
    test_mat dbeta2 = test_mat_make(1, s->cols, 5, NULL);
    cl_event event = NULL;
    TEST_OK(clprune_affine_backward(
        context, 0, 0, x.mat, alpha.mat, dy.mat, dx.mat, dalpha.mat, dbeta.mat, &event));
    layer_event(event);
    layer_check("dx", &dx, dx_want, dx_bound, "backward");
    layer_check("dalpha", &dalpha, dalpha_want, dalpha_bound, "backward");
    layer_check("dbeta", &dbeta, dbeta_want, dbeta_bound, "backward");
    test_mat_unchanged(&dy, "dy");
    TEST_OK(clprune_affine_backward(
        context, 0, 0, x.mat, alpha.mat, dy.mat, dy.mat, dalpha2.mat, dbeta2.mat, NULL));
    layer_same("dx in place", &dx, &dy);
    layer_same("dalpha", &dalpha, &dalpha2);
    layer_same("dbeta", &dbeta, &dbeta2);

    /* Added to what the forward input's gradient holds already. */
    test_mat_set(&dy, in.dy);
    test_mat_set(&dx, in.x);
    affine_ref_dx(s->rows, s->cols, in.wide_alpha, in.wide_dy, in.wide_x, dx_want, dx_bound);
    TEST_OK(clprune_affine_backward(
        context, 0, 1, x.mat, alpha.mat, dy.mat, dx.mat, dalpha2.mat, dbeta2.mat, NULL));
    layer_check("dx", &dx, dx_want, dx_bound, "accumulated");
    layer_same("dalpha, accumulated dx", &dalpha, &dalpha2);
    layer_same("dbeta, accumulated dx", &dbeta, &dbeta2);
    test_mat_unchanged(&x, "x");
    test_mat_unchanged(&dy, "dy");
    test_mat_unchanged(&alpha, "alpha");
}

/* sum dy * y as a function of x, alpha and beta, one after the other. */
static double loss_ref(void *user, const double *theta)
{
    const inputs *in = user;
    double *y = layer_new(in->count), loss = 0;
    affine_ref_forward(
        in->rows, in->cols, theta, theta + in->count, theta + in->count + in->cols, y, NULL);
    for (size_t i = 0; i < in->count; i++)
        loss += in->wide_dy[i] * y[i];
    return loss;
}

static double loss_device(void *user, const double *theta)
{
    const inputs *in = user;
    float *narrow = layer_narrow(in->count + 2 * in->cols, theta);
    test_mat x = test_mat_make(in->rows, in->cols, 0, narrow);
    test_mat alpha = test_mat_make(1, in->cols, 0, narrow + in->count);
    test_mat beta = test_mat_make(1, in->cols, 0, narrow + in->count + in->cols);
    TEST_OK(clprune_affine_forward(test_context(), x.mat, alpha.mat, beta.mat, x.mat, NULL));
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
    const size_t total = in.count + 2 * in.cols;
    double *theta = layer_new(total), *grad = layer_new(total);
    memcpy(theta, in.wide_x, in.count * sizeof *theta);
    memcpy(theta + in.count, in.wide_alpha, in.cols * sizeof *theta);
    memcpy(theta + in.count + in.cols, in.wide_beta, in.cols * sizeof *theta);
    affine_ref_dx(in.rows, in.cols, in.wide_alpha, in.wide_dy, NULL, grad, NULL);
    affine_ref_dalpha(in.rows, in.cols, in.wide_x, in.wide_dy, grad + in.count, NULL);
    affine_ref_dbeta(in.rows, in.cols, in.wide_dy, grad + in.count + in.cols, NULL);
    layer_slopes("reference", loss_ref, &in, total, theta, grad, 1e-4, 1e-8);
    layer_slopes("device", loss_device, &in, total, theta, grad, 1e-2, 1e-3);
}

static void invalid(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    test_mat x = test_mat_make(4, 6, 0, NULL), y = test_mat_make(4, 6, 0, NULL);
    test_mat a = test_mat_make(1, 6, 0, NULL), b = test_mat_make(1, 6, 0, NULL);
    test_mat narrow = test_mat_make(4, 5, 0, NULL), short_row = test_mat_make(1, 5, 0, NULL);
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    clprune_mat shifted = x.mat;
    shifted.offset += 1;
    clprune_mat inside = clprune_mat_rows(x.mat, 2, 1);
    cl_event event = NULL;
    assert_int_equal(clprune_affine_forward(NULL, x.mat, a.mat, b.mat, y.mat, &event), bad);
    TEST_FAILS(clprune_affine_forward(context, x.mat, a.mat, b.mat, narrow.mat, &event), size, "y");
    TEST_FAILS(
        clprune_affine_forward(context, x.mat, short_row.mat, b.mat, y.mat, &event), size, "alpha");
    TEST_FAILS(
        clprune_affine_forward(context, x.mat, a.mat, short_row.mat, y.mat, &event), size, "beta");
    TEST_FAILS(clprune_affine_forward(context, x.mat, a.mat, b.mat, shifted, &event), bad, "y");
    TEST_FAILS(clprune_affine_forward(context, x.mat, inside, b.mat, x.mat, &event), bad, "alpha");
    TEST_FAILS(clprune_affine_forward(context, x.mat, a.mat, inside, x.mat, &event), bad, "beta");

    test_mat dy = test_mat_make(4, 6, 0, NULL), da = test_mat_make(1, 6, 0, NULL);
#define BACKWARD(...) clprune_affine_backward(__VA_ARGS__, &event)
    assert_int_equal(BACKWARD(NULL, 0, 0, x.mat, a.mat, dy.mat, y.mat, da.mat, b.mat), bad);
    TEST_FAILS(BACKWARD(context, 0, 0, x.mat, a.mat, narrow.mat, y.mat, da.mat, b.mat), size, "dy");
    TEST_FAILS(
        BACKWARD(context, 0, 0, x.mat, a.mat, dy.mat, narrow.mat, da.mat, b.mat), size, "dx");
    TEST_FAILS(
        BACKWARD(context, 0, 0, x.mat, short_row.mat, dy.mat, y.mat, da.mat, b.mat), size, "alpha");
    TEST_FAILS(
        BACKWARD(context, 0, 0, x.mat, a.mat, dy.mat, y.mat, short_row.mat, b.mat), size, "dalpha");
    TEST_FAILS(
        BACKWARD(context, 0, 0, x.mat, a.mat, dy.mat, y.mat, da.mat, short_row.mat), size, "dbeta");
    TEST_FAILS(BACKWARD(context, 0, 0, x.mat, a.mat, dy.mat, x.mat, da.mat, b.mat), bad, "dx");
    TEST_FAILS(BACKWARD(context, 0, 1, x.mat, a.mat, dy.mat, dy.mat, da.mat, b.mat), bad, "dx");
    TEST_FAILS(BACKWARD(context, 0, 0, x.mat, a.mat, dy.mat, y.mat, da.mat, da.mat), bad, "dbeta");
    TEST_FAILS(BACKWARD(context, 0, 0, x.mat, a.mat, dy.mat, y.mat, inside, b.mat), bad, "dalpha");
    TEST_FAILS(BACKWARD(context, 0, 0, x.mat, a.mat, dy.mat, y.mat, da.mat, inside), bad, "dbeta");
    TEST_FAILS(BACKWARD(context, 0, 0, x.mat, a.mat, dy.mat, y.mat, a.mat, b.mat), bad, "dalpha");
    assert_null(event);
    test_mat *mats[] = {&x, &y, &a, &b, &narrow, &short_row, &dy, &da};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
}

/* ---- in front of a linear layer, without its output: h = (alpha * x + beta) w^T ----------------
 */

/* w, product and dw have the shape; sums one element per row. */
static void product(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    const size_t rows = s->rows, cols = s->cols, count = rows * cols;
    inputs in = inputs_new(rows, cols); /* x is w, dy is dh^T x */
    float *sums = test_new_normal(15, rows), *middle = test_new_normal(18, cols);
    double *wide_sums = layer_widen(rows, sums), *wide_middle = layer_widen(cols, middle);
    double *want = layer_new(count), *bound = layer_new(count);
    double *dalpha_want = layer_new(cols), *dalpha_bound = layer_new(cols);
    double *dbeta_want = layer_new(cols), *dbeta_bound = layer_new(cols);
    affine_ref_product(
        rows, cols, in.wide_alpha, in.wide_beta, wide_middle, in.wide_dy, wide_sums, want, bound);
    affine_ref_product_dalpha(
        rows, cols, in.wide_x, wide_middle, in.wide_dy, wide_sums, dalpha_want, dalpha_bound);
    affine_ref_product_dbeta(rows, cols, in.wide_x, wide_sums, dbeta_want, dbeta_bound);
    test_mat w = test_mat_make(rows, cols, s->gap, in.x), dw[2], dalpha[2], dbeta[2];
    test_mat alpha = test_mat_make(1, cols, 0, in.alpha), beta = test_mat_make(1, cols, 1, in.beta);
    test_mat centre = test_mat_make(1, cols, 0, middle);
    test_mat sum = test_mat_make(1, rows, 0, sums), scaled = test_mat_make(rows, cols, 3, NULL);
    for (int i = 0; i < 2; i++) {
        cl_event event = NULL;
        dw[i] = test_mat_make(rows, cols, s->gap + 1, in.dy);
        dalpha[i] = test_mat_make(1, cols, 0, NULL);
        dbeta[i] = test_mat_make(1, cols, 2, NULL);
        TEST_OK(clprune_affine_backward_product(context, 0, w.mat, alpha.mat, beta.mat, centre.mat,
            sum.mat, dw[i].mat, dalpha[i].mat, dbeta[i].mat, &event));
        layer_event(event);
    }
    layer_check("dw", &dw[0], want, bound, "product");
    layer_check("dalpha", &dalpha[0], dalpha_want, dalpha_bound, "product");
    layer_check("dbeta", &dbeta[0], dbeta_want, dbeta_bound, "product");
    layer_same("dw", &dw[0], &dw[1]);
    layer_same("dalpha", &dalpha[0], &dalpha[1]);
    layer_same("dbeta", &dbeta[0], &dbeta[1]);
    affine_ref_dx(rows, cols, in.wide_alpha, in.wide_x, NULL, want, bound);
    TEST_OK(clprune_affine_weights(context, alpha.mat, w.mat, scaled.mat, NULL));
    layer_check("scaled", &scaled, want, bound, "weights");
    test_mat_unchanged(&w, "w");
    TEST_OK(clprune_affine_weights(context, alpha.mat, w.mat, w.mat, NULL));
    layer_same("scaled over w", &w, &scaled);
    for (size_t i = 0; i < count; i++) {
        want[i] = in.wide_dy[i] - wide_middle[i % cols];
        bound[i] = test_bound(0, 0, want[i]);
    }
    test_mat_set(&scaled, in.dy);
    TEST_OK(clprune_affine_centre(context, centre.mat, scaled.mat, NULL));
    layer_check("x", &scaled, want, bound, "centre");
    test_mat *mats[] = {&alpha, &beta, &sum, &centre, &w, &scaled, &dw[0], &dw[1], &dalpha[0],
        &dalpha[1], &dbeta[0], &dbeta[1]};
    for (size_t i = 0; i < 4; i++)
        test_mat_unchanged(mats[i], "input");
}

/* sum dh * ((alpha * x + beta) w^T) as a function of w, alpha and beta; user: x, then dh. */
static double product_loss(void *user, const double *theta)
{
    const double *x = user, *dh = x + LAYER_ROWS * LAYER_IN;
    const double *alpha = theta + LAYER_W, *beta = alpha + LAYER_IN;
    double loss = 0;
    for (size_t r = 0; r < LAYER_ROWS; r++)
        for (size_t o = 0; o < LAYER_OUT; o++)
            for (size_t i = 0; i < LAYER_IN; i++)
                loss += dh[r * LAYER_OUT + o] * (alpha[i] * x[r * LAYER_IN + i] + beta[i]) *
                        theta[o * LAYER_IN + i];
    return loss;
}

/* The device's gradients from dh^T (x - centre) against differences of the loss. */
static void product_slopes(void **state)
{
    (void)state;
    static const float middle[LAYER_IN] = {1, -2, 0, 0.5f, 3, -0.25f, 2};
    layer_product p = layer_product_new(16, 2 * LAYER_IN, middle);
    test_mat in[] = {test_mat_make(LAYER_OUT, LAYER_IN, 0, p.theta),
        test_mat_make(1, LAYER_IN, 0, p.theta + LAYER_W),
        test_mat_make(1, LAYER_IN, 0, p.theta + LAYER_W + LAYER_IN),
        test_mat_make(1, LAYER_IN, 0, middle), test_mat_make(1, LAYER_OUT, 0, p.sums)};
    test_mat out[] = {test_mat_make(LAYER_OUT, LAYER_IN, 0, p.dw),
        test_mat_make(1, LAYER_IN, 0, NULL), test_mat_make(1, LAYER_IN, 0, NULL)};
    TEST_OK(clprune_affine_backward_product(test_context(), 0, in[0].mat, in[1].mat, in[2].mat,
        in[3].mat, in[4].mat, out[0].mat, out[1].mat, out[2].mat, NULL));
    layer_product_slopes(&p, product_loss, out);
}

static void product_invalid(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat w = test_mat_make(4, 6, 0, NULL), dw = test_mat_make(4, 6, 0, NULL);
    test_mat a = test_mat_make(1, 6, 0, NULL), b = test_mat_make(1, 6, 0, NULL);
    test_mat s = test_mat_make(1, 4, 0, NULL), da = test_mat_make(1, 6, 0, NULL);
    test_mat m = test_mat_make(1, 6, 0, NULL);
    test_mat db = test_mat_make(1, 6, 0, NULL), other = test_mat_make(2, 3, 0, NULL);
    clprune_mat shifted = w.mat;
    shifted.offset += 1;
    const clprune_mat inside = clprune_mat_rows(dw.mat, 2, 1), in_w = clprune_mat_rows(w.mat, 1, 1);
    cl_event event = NULL;
#define WEIGHTS(...) clprune_affine_weights(__VA_ARGS__, &event)
    assert_int_equal(WEIGHTS(NULL, a.mat, w.mat, dw.mat), bad);
    TEST_FAILS(WEIGHTS(context, other.mat, w.mat, dw.mat), size, "alpha is");
    TEST_FAILS(WEIGHTS(context, a.mat, w.mat, other.mat), size, "scaled is");
    TEST_FAILS(WEIGHTS(context, a.mat, w.mat, shifted), bad, "scaled overlaps w");
    TEST_FAILS(WEIGHTS(context, inside, w.mat, dw.mat), bad, "scaled overlaps alpha");
#define PRODUCT(...) clprune_affine_backward_product(__VA_ARGS__, &event)
    const clprune_mat o = other.mat;
    assert_int_equal(
        PRODUCT(NULL, 0, w.mat, a.mat, b.mat, m.mat, s.mat, dw.mat, da.mat, db.mat), bad);
    TEST_FAILS(PRODUCT(context, 0, w.mat, o, b.mat, m.mat, s.mat, dw.mat, da.mat, db.mat), size,
        "alpha is");
    TEST_FAILS(PRODUCT(context, 0, w.mat, a.mat, o, m.mat, s.mat, dw.mat, da.mat, db.mat), size,
        "beta is");
    TEST_FAILS(PRODUCT(context, 0, w.mat, a.mat, b.mat, m.mat, o, dw.mat, da.mat, db.mat), size,
        "sums is");
    TEST_FAILS(
        PRODUCT(context, 0, w.mat, a.mat, b.mat, m.mat, s.mat, o, da.mat, db.mat), size, "dw is");
    TEST_FAILS(PRODUCT(context, 0, w.mat, a.mat, b.mat, m.mat, s.mat, dw.mat, o, db.mat), size,
        "dalpha is");
    TEST_FAILS(PRODUCT(context, 0, w.mat, a.mat, b.mat, m.mat, s.mat, dw.mat, da.mat, o), size,
        "dbeta is");
    TEST_FAILS(PRODUCT(context, 0, w.mat, a.mat, b.mat, m.mat, s.mat, w.mat, da.mat, db.mat), bad,
        "dw overlaps w");
    TEST_FAILS(PRODUCT(context, 0, w.mat, a.mat, b.mat, m.mat, s.mat, dw.mat, in_w, db.mat), bad,
        "dalpha overlaps w");
    TEST_FAILS(PRODUCT(context, 0, w.mat, a.mat, b.mat, m.mat, s.mat, dw.mat, da.mat, inside), bad,
        "dbeta overlaps dw");
    TEST_FAILS(PRODUCT(context, 0, w.mat, a.mat, b.mat, m.mat, s.mat, dw.mat, da.mat, da.mat), bad,
        "dbeta overlaps dalpha");
    TEST_FAILS(PRODUCT(context, 0, w.mat, a.mat, b.mat, o, s.mat, dw.mat, da.mat, db.mat), size,
        "centre is");
#define CENTRE(...) clprune_affine_centre(__VA_ARGS__, &event)
    assert_int_equal(CENTRE(NULL, m.mat, w.mat), bad);
    TEST_FAILS(CENTRE(context, o, w.mat), size, "centre is");
    TEST_FAILS(CENTRE(context, in_w, w.mat), bad, "x overlaps centre");
    assert_null(event);
    test_mat *mats[] = {&w, &dw, &a, &b, &s, &m, &da, &db, &other};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
}

int main(void)
{
    test_list list = {0};
    layer_add_shapes(&list, forward, "forward");
    layer_add_shapes(&list, backward, "backward");
    layer_add_shapes(&list, product, "product");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, product_slopes, NULL, "slopes of the product");
    test_add(&list, product_invalid, NULL, "invalid arguments of the product");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("affine", &list);
}
