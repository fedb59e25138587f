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

static void inputs_free(inputs *in)
{
    free(in->x);
    free(in->alpha);
    free(in->beta);
    free(in->dy);
    free(in->wide_x);
    free(in->wide_alpha);
    free(in->wide_beta);
    free(in->wide_dy);
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
    test_mat_free(&x);
    test_mat_free(&alpha);
    test_mat_free(&beta);
    test_mat_free(&y);
    free(want);
    free(bound);
    inputs_free(&in);
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
        context, false, x.mat, alpha.mat, dy.mat, dx.mat, dalpha.mat, dbeta.mat, &event));
    layer_event(event);
    layer_check("dx", &dx, dx_want, dx_bound, "backward");
    layer_check("dalpha", &dalpha, dalpha_want, dalpha_bound, "backward");
    layer_check("dbeta", &dbeta, dbeta_want, dbeta_bound, "backward");
    test_mat_unchanged(&dy, "dy");
    TEST_OK(clprune_affine_backward(
        context, false, x.mat, alpha.mat, dy.mat, dy.mat, dalpha2.mat, dbeta2.mat, NULL));
    layer_same("dx in place", &dx, &dy);
    layer_same("dalpha", &dalpha, &dalpha2);
    layer_same("dbeta", &dbeta, &dbeta2);

    /* Added to what the forward input's gradient holds already. */
    test_mat_set(&dy, in.dy);
    test_mat_set(&dx, in.x);
    affine_ref_dx(s->rows, s->cols, in.wide_alpha, in.wide_dy, in.wide_x, dx_want, dx_bound);
    TEST_OK(clprune_affine_backward(
        context, true, x.mat, alpha.mat, dy.mat, dx.mat, dalpha2.mat, dbeta2.mat, NULL));
    layer_check("dx", &dx, dx_want, dx_bound, "accumulated");
    layer_same("dalpha, accumulated dx", &dalpha, &dalpha2);
    layer_same("dbeta, accumulated dx", &dbeta, &dbeta2);
    test_mat_unchanged(&x, "x");
    test_mat_unchanged(&dy, "dy");
    test_mat_unchanged(&alpha, "alpha");
    test_mat *mats[] = {&x, &alpha, &dy, &dx, &dalpha, &dbeta, &dalpha2, &dbeta2};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++)
        test_mat_free(mats[i]);
    double *arrays[] = {dx_want, dx_bound, dalpha_want, dalpha_bound, dbeta_want, dbeta_bound};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
    inputs_free(&in);
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
    free(y);
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
    free(y);
    free(narrow);
    test_mat_free(&x);
    test_mat_free(&alpha);
    test_mat_free(&beta);
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
    free(theta);
    free(grad);
    inputs_free(&in);
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
    assert_int_equal(BACKWARD(NULL, false, x.mat, a.mat, dy.mat, y.mat, da.mat, b.mat), bad);
    TEST_FAILS(
        BACKWARD(context, false, x.mat, a.mat, narrow.mat, y.mat, da.mat, b.mat), size, "dy");
    TEST_FAILS(
        BACKWARD(context, false, x.mat, a.mat, dy.mat, narrow.mat, da.mat, b.mat), size, "dx");
    TEST_FAILS(BACKWARD(context, false, x.mat, short_row.mat, dy.mat, y.mat, da.mat, b.mat), size,
        "alpha");
    TEST_FAILS(BACKWARD(context, false, x.mat, a.mat, dy.mat, y.mat, short_row.mat, b.mat), size,
        "dalpha");
    TEST_FAILS(BACKWARD(context, false, x.mat, a.mat, dy.mat, y.mat, da.mat, short_row.mat), size,
        "dbeta");
    TEST_FAILS(BACKWARD(context, false, x.mat, a.mat, dy.mat, x.mat, da.mat, b.mat), bad, "dx");
    TEST_FAILS(BACKWARD(context, true, x.mat, a.mat, dy.mat, dy.mat, da.mat, b.mat), bad, "dx");
    TEST_FAILS(BACKWARD(context, false, x.mat, a.mat, dy.mat, y.mat, da.mat, da.mat), bad, "dbeta");
    TEST_FAILS(BACKWARD(context, false, x.mat, a.mat, dy.mat, y.mat, inside, b.mat), bad, "dalpha");
    TEST_FAILS(BACKWARD(context, false, x.mat, a.mat, dy.mat, y.mat, da.mat, inside), bad, "dbeta");
    TEST_FAILS(BACKWARD(context, false, x.mat, a.mat, dy.mat, y.mat, a.mat, b.mat), bad, "dalpha");
    assert_null(event);
    test_mat *mats[] = {&x, &y, &a, &b, &narrow, &short_row, &dy, &da};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
        test_mat_free(mats[i]);
    }
}

int main(void)
{
    test_list list = {0};
    layer_add_shapes(&list, forward, "forward");
    layer_add_shapes(&list, backward, "backward");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("affine", &list);
}
