/* Token mean: values over samples x tokens x features, derivatives, repeatability, invalid
 * arguments. */
#include "ref/token_mean_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    size_t batch, tokens, cols, gap;
} shape;

static const shape shapes[] = {{1, 1, 1, 0}, {3, 1, 16, 0}, {1, 7, 15, 1}, {2, 9, 17, 0},
    {5, 196, 20, 2}, {4, 64, 128, 0}, {3, 5, 4, 0}, {2, 3, 3, 5}, {2, 5, 530, 3}, {2, 3, 2100, 0},
    {0, 5, 8, 0}, {3, 5, 0, 0}, {0, 0, 0, 0}};

static void values(void **state)
{
    const shape *s = *state;
    clprune_context *context = test_context();
    const size_t rows = s->batch * s->tokens, count = rows * s->cols, small = s->batch * s->cols;
    float *x = test_new_normal(41, count), *dy = test_new_normal(42, small);
    double *wide_x = layer_widen(count, x), *wide_dy = layer_widen(small, dy);
    double *y_want = layer_new(small), *y_bound = layer_new(small);
    double *dx_want = layer_new(count), *dx_bound = layer_new(count);
    token_mean_ref_forward(s->batch, s->tokens, s->cols, wide_x, y_want, y_bound);
    token_mean_ref_backward(s->batch, s->tokens, s->cols, wide_dy, dx_want, dx_bound);
    test_mat in = test_mat_make(rows, s->cols, s->gap, x);
    test_mat y = test_mat_make(s->batch, s->cols, s->gap + 1, NULL);
    test_mat y2 = test_mat_make(s->batch, s->cols, s->gap, NULL);
    test_mat gradient = test_mat_make(s->batch, s->cols, s->gap + 2, dy);
    test_mat dx = test_mat_make(rows, s->cols, s->gap + 3, NULL);
    cl_event event = NULL;
    TEST_OK(clprune_token_mean_forward(context, s->batch, s->tokens, in.mat, y.mat, &event));
    layer_event(event);
    layer_check("y", &y, y_want, y_bound, "forward");
    TEST_OK(clprune_token_mean_forward(context, s->batch, s->tokens, in.mat, y2.mat, NULL));
    layer_same("y", &y, &y2);
    TEST_OK(
        clprune_token_mean_backward(context, s->batch, s->tokens, gradient.mat, dx.mat, &event));
    layer_event(event);
    layer_check("dx", &dx, dx_want, dx_bound, "backward");
    test_mat_unchanged(&in, "x");
    test_mat_unchanged(&gradient, "dy");
}

/* No tokens: the mean is NaN, the gradient has no rows. */
static void no_tokens(void **state)
{
    (void)state;
    test_mat none = test_mat_make(0, 5, 0, NULL), y = test_mat_make(2, 5, 1, NULL);
    const double want[10] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    const double bound[10] = {0};
    TEST_OK(clprune_token_mean_forward(test_context(), 2, 0, none.mat, y.mat, NULL));
    layer_check("y", &y, want, bound, "no tokens");
    TEST_OK(clprune_token_mean_backward(test_context(), 2, 0, y.mat, none.mat, NULL));
}

enum { BATCH = 3, TOKENS = 7, COLS = 18 };

/* The sum of w * y, w[i] = i / 10 - 2. */
static double weight(size_t i)
{
    return (double)i / 10 - 2;
}

static double loss_ref(void *user, const double *x)
{
    (void)user;
    double y[BATCH * COLS], loss = 0;
    token_mean_ref_forward(BATCH, TOKENS, COLS, x, y, NULL);
    for (size_t i = 0; i < BATCH * COLS; i++)
        loss += weight(i) * y[i];
    return loss;
}

static double loss_device(void *user, const double *x)
{
    (void)user;
    float *narrow = layer_narrow(BATCH * TOKENS * COLS, x);
    test_mat in = test_mat_make(BATCH * TOKENS, COLS, 0, narrow);
    test_mat out = test_mat_make(BATCH, COLS, 0, NULL);
    TEST_OK(clprune_token_mean_forward(test_context(), BATCH, TOKENS, in.mat, out.mat, NULL));
    float *y = test_mat_get(&out, "y");
    double loss = 0;
    for (size_t i = 0; i < BATCH * COLS; i++)
        loss += weight(i) * (double)y[i];
    return loss;
}

static void slopes(void **state)
{
    (void)state;
    enum { COUNT = BATCH * TOKENS * COLS };
    float *x = test_new_normal(43, COUNT);
    double *wide = layer_widen(COUNT, x), *grad = layer_new(COUNT), dy[BATCH * COLS];
    for (size_t i = 0; i < BATCH * COLS; i++)
        dy[i] = weight(i);
    token_mean_ref_backward(BATCH, TOKENS, COLS, dy, grad, NULL);
    layer_slopes("reference", loss_ref, NULL, COUNT, wide, grad, 1e-3, 1e-8);
    layer_slopes("device", loss_device, NULL, COUNT, wide, grad, 1e-2, 1e-3);
}

static void invalid(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat x = test_mat_make(12, 5, 0, NULL), y = test_mat_make(3, 5, 0, NULL);
    test_mat narrow = test_mat_make(3, 4, 0, NULL);
    const clprune_mat inside = clprune_mat_rows(x.mat, 2, 3);
    cl_event event = NULL;
    assert_int_equal(clprune_token_mean_forward(NULL, 3, 4, x.mat, y.mat, &event), bad);
    TEST_FAILS(clprune_token_mean_forward(context, 3, 5, x.mat, y.mat, &event), size, "x is");
    TEST_FAILS(clprune_token_mean_forward(context, 4, 3, x.mat, y.mat, &event), size, "y is");
    TEST_FAILS(clprune_token_mean_forward(context, 3, 4, x.mat, narrow.mat, &event), size, "y is");
    TEST_FAILS(
        clprune_token_mean_forward(context, 3, 4, x.mat, inside, &event), bad, "y overlaps x");
    TEST_FAILS(clprune_token_mean_forward(context, SIZE_MAX, 4, x.mat, y.mat, &event),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    assert_int_equal(clprune_token_mean_backward(NULL, 3, 4, y.mat, x.mat, &event), bad);
    TEST_FAILS(clprune_token_mean_backward(context, 3, 5, y.mat, x.mat, &event), size, "dx is");
    TEST_FAILS(clprune_token_mean_backward(context, 4, 3, y.mat, x.mat, &event), size, "dy is");
    TEST_FAILS(
        clprune_token_mean_backward(context, 3, 4, narrow.mat, x.mat, &event), size, "dx is");
    TEST_FAILS(
        clprune_token_mean_backward(context, 3, 4, inside, x.mat, &event), bad, "dx overlaps dy");
    TEST_FAILS(clprune_token_mean_backward(context, SIZE_MAX, 4, y.mat, x.mat, &event),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    assert_null(event);
    test_mat *mats[] = {&x, &y, &narrow};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        test_add(
            &list, values, s, "%zu x %zu tokens x %zu + %zu", s->batch, s->tokens, s->cols, s->gap);
    }
    test_add(&list, no_tokens, NULL, "no tokens");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("token_mean", &list);
}
