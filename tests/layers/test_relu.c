/* ReLU: values and masks over all shapes, with a bias and with its gradient, special values,
 * derivatives, aliasing, invalid arguments. */
#include <math.h>

#include "nn/layers/activation_private.h"
#include "ref/relu_ref.h"
#include "support/test_layer.h"

static size_t words_of(size_t cols)
{
    clprune_relu_mask_sizes sizes;
    TEST_OK(clprune_relu_mask_size_query(1, cols, &sizes));
    assert_int_equal(sizes.bytes, 4 * sizes.cols);
    return sizes.cols;
}

/* The bits of a mask are `want`, and those behind a row are 0. */
static void check_mask(const test_mat *mask, size_t cols, const bool *want)
{
    const size_t words = mask->mat.cols;
    float *packed = test_mat_get(mask, "mask");
    for (size_t r = 0; r < mask->mat.rows; r++) {
        const unsigned char *row = (const unsigned char *)(packed + r * words);
        for (size_t c = 0; c < words * 32; c++) {
            const bool bit = (row[c / 8] >> c % 8 & 1) != 0;
            if (bit != (c < cols && want[r * cols + c]))
                fail_msg("row %zu, bit %zu is %d", r, c, bit);
        }
    }
}

/* With zeros, so that the border is tested. */
static float *new_inputs(uint64_t seed, size_t count)
{
    float *x = test_new_normal(seed, count);
    for (size_t i = 0; i < count; i++)
        if (i % 7 == 3)
            x[i] = i % 2 == 0 ? 0.0f : -0.0f;
    return x;
}

/* Forward and backward against the reference: exact, in place too, with and without the mask. */
static void values(void **state)
{
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols, words = words_of(s->cols);
    clprune_context *context = test_context();
    const clprune_mat none = CLPRUNE_NO_MAT;
    float *x = new_inputs(71, count), *dy = test_new_normal(72, count);
    double *wide_x = layer_widen(count, x), *wide_dy = layer_widen(count, dy);
    double *y_want = layer_new(count), *dx_want = layer_new(count), *exact = layer_new(count);
    bool *positive = test_alloc(count * sizeof *positive);
    relu_ref_forward(count, wide_x, y_want, positive);
    relu_ref_backward(count, wide_dy, positive, dx_want);
    test_mat in = test_mat_make(s->rows, s->cols, s->gap, x);
    test_mat out = test_mat_make(s->rows, s->cols, s->gap + 1, NULL);
    test_mat gradient = test_mat_make(s->rows, s->cols, s->gap + 2, dy);
    test_mat mask = test_mat_make(s->rows, words, s->gap, NULL);
    test_mat again = test_mat_make(s->rows, words, 0, NULL);
    cl_event event = NULL;
    TEST_OK(clprune__relu_forward(context, in.mat, none, out.mat, mask.mat, &event));
    layer_event(event);
    layer_check("y", &out, y_want, exact, "forward");
    check_mask(&mask, s->cols, positive);
    test_mat_unchanged(&in, "x");
    test_mat_set(&out, NULL);
    TEST_OK(clprune__relu_forward(context, in.mat, none, out.mat, none, NULL));
    layer_check("y", &out, y_want, exact, "forward without a mask");
    TEST_OK(clprune__relu_forward(context, in.mat, none, in.mat, again.mat, NULL));
    layer_same("y over x", &out, &in);
    check_mask(&again, s->cols, positive);

    float *packed = test_mat_get(&mask, "mask");
    test_mat_set(&mask, packed);
    TEST_OK(clprune__relu_backward(context, 0, gradient.mat, mask.mat, out.mat, none, &event));
    layer_event(event);
    layer_check("dx", &out, dx_want, exact, "backward");
    test_mat_unchanged(&gradient, "dy");
    test_mat_unchanged(&mask, "mask");
    TEST_OK(clprune__relu_backward(context, 0, gradient.mat, mask.mat, gradient.mat, none, NULL));
    layer_same("dx over dy", &out, &gradient);
}

/* With b: y and mask have the bits of x + b, and x stays. With db: dx has the bits of the pass
 * without it, db is the sum of its columns, and beta times the old db is added. */
static void bias(void **state)
{
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols, words = words_of(s->cols);
    clprune_context *context = test_context();
    const clprune_mat none = CLPRUNE_NO_MAT;
    float *x = new_inputs(73, count), *b = test_new_normal(74, s->cols);
    float *dy = test_new_normal(75, count), *sum = test_new_normal(76, count);
    double *db_want = layer_new(s->cols), *size = layer_new(s->cols), *bound = layer_new(s->cols);
    for (size_t i = 0; i < count; i++)
        sum[i] = x[i] + b[i % s->cols];
    test_mat in = test_mat_make(s->rows, s->cols, s->gap, x);
    test_mat moved = test_mat_make(s->rows, s->cols, 0, sum);
    test_mat shift = test_mat_make(1, s->cols, 1, b);
    test_mat gradient = test_mat_make(s->rows, s->cols, s->gap, dy);
    test_mat out[2], mask[2], db[3];
    for (int i = 0; i < 2; i++) {
        out[i] = test_mat_make(s->rows, s->cols, s->gap + 1, NULL);
        mask[i] = test_mat_make(s->rows, words, s->gap, NULL);
    }
    for (int i = 0; i < 3; i++)
        db[i] = test_mat_make(1, s->cols, 2, i == 2 ? b : NULL);
    TEST_OK(clprune__relu_forward(context, moved.mat, none, out[0].mat, mask[0].mat, NULL));
    TEST_OK(clprune__relu_forward(context, in.mat, shift.mat, out[1].mat, mask[1].mat, NULL));
    layer_same("y with a bias", &out[0], &out[1]);
    layer_same("mask with a bias", &mask[0], &mask[1]);
    test_mat_unchanged(&in, "x");
    test_mat_unchanged(&shift, "b");

    cl_event event = NULL;
    TEST_OK(clprune__relu_backward(context, 0, gradient.mat, mask[0].mat, out[0].mat, none, NULL));
    TEST_OK(clprune__relu_backward(
        context, 0, gradient.mat, mask[0].mat, out[1].mat, db[0].mat, &event));
    layer_event(event);
    layer_same("dx with db", &out[0], &out[1]);
    float *dx = test_mat_get(&out[0], "dx");
    for (size_t i = 0; i < count; i++) {
        db_want[i % s->cols] += (double)dx[i];
        size[i % s->cols] += fabs((double)dx[i]);
    }
    for (size_t c = 0; c < s->cols; c++)
        bound[c] = test_bound(s->rows, size[c], db_want[c]);
    layer_check("db", &db[0], db_want, bound, "backward");
    TEST_OK(clprune__relu_backward(
        context, 0.5f, gradient.mat, mask[0].mat, gradient.mat, db[2].mat, NULL));
    layer_same("dx over dy, with db", &out[0], &gradient);
    float *plain = test_mat_get(&db[0], "db");
    for (size_t c = 0; c < s->cols; c++)
        plain[c] = fmaf(0.5f, b[c], plain[c]);
    test_mat_set(&db[1], plain);
    layer_same("db, with beta", &db[1], &db[2]);
}

static void special_values(void **state)
{
    (void)state;
    static const float x[] = {
        NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f, -1e-45f, 3.4e38f, -3.4e38f};
    static const bool passes[] = {1, 1, 1, 0, 0, 0, 1, 0, 1, 0};
    enum { COUNT = sizeof x / sizeof x[0] };
    clprune_context *context = test_context();
    float bad[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        bad[i] = i % 2 == 0 ? NAN : INFINITY;
    test_mat in = test_mat_make(1, COUNT, 0, x), out = test_mat_make(1, COUNT, 0, NULL);
    test_mat mask = test_mat_make(1, 1, 0, NULL), dy = test_mat_make(1, COUNT, 0, bad);
    TEST_OK(clprune__relu_forward(context, in.mat, CLPRUNE_NO_MAT, out.mat, mask.mat, NULL));
    float *y = test_mat_get(&out, "y");
    assert_true(isnan(y[0]) && isnan(y[1]) && isinf(y[2]));
    for (size_t i = 2; i < COUNT; i++) {
        assert_true(y[i] == (passes[i] ? x[i] : 0.0f));
        assert_false(signbit(y[i]));
    }
    check_mask(&mask, COUNT, passes);
    /* A gradient that does not pass is 0, whatever it is. */
    TEST_OK(clprune__relu_backward(context, 0, dy.mat, mask.mat, out.mat, CLPRUNE_NO_MAT, NULL));
    float *dx = test_mat_get(&out, "dx");
    for (size_t i = 0; i < COUNT; i++)
        assert_true(passes[i] ? isnan(bad[i]) ? isnan(dx[i]) : isinf(dx[i]) : dx[i] == 0.0f);
}

typedef struct problem {
    size_t rows, cols;
    const float *dy;
} problem;

/* sum dy * relu(x + b) on the device, for theta = x, then b. */
static double loss(void *user, const double *theta)
{
    const problem *p = user;
    const size_t count = p->rows * p->cols;
    float *narrow = layer_narrow(count + p->cols, theta);
    test_mat x = test_mat_make(p->rows, p->cols, 0, narrow);
    test_mat b = test_mat_make(1, p->cols, 0, narrow + count);
    TEST_OK(clprune__relu_forward(test_context(), x.mat, b.mat, x.mat, CLPRUNE_NO_MAT, NULL));
    float *y = test_mat_get(&x, "y");
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += (double)p->dy[i] * (double)y[i];
    return total;
}

/* dx and db against differences of the loss, at points further from 0 than the steps reach. */
static void slopes(void **state)
{
    (void)state;
    enum { ROWS = 11, COLS = 37, COUNT = ROWS * COLS };
    clprune_context *context = test_context();
    float *theta = test_new_normal(77, COUNT + COLS), *dy = test_new_normal(78, COUNT);
    for (size_t i = 0; i < COUNT + COLS; i++)
        theta[i] = i < COUNT ? theta[i] + copysignf(1, theta[i]) : 0;
    test_mat x = test_mat_make(ROWS, COLS, 0, theta), dx = test_mat_make(ROWS, COLS, 0, dy);
    test_mat b = test_mat_make(1, COLS, 0, theta + COUNT), db = test_mat_make(1, COLS, 0, NULL);
    test_mat mask = test_mat_make(ROWS, words_of(COLS), 0, NULL);
    TEST_OK(clprune__relu_forward(context, x.mat, b.mat, x.mat, mask.mat, NULL));
    TEST_OK(clprune__relu_backward(context, 0, dx.mat, mask.mat, dx.mat, db.mat, NULL));
    float *got_dx = test_mat_get(&dx, "dx"), *got_db = test_mat_get(&db, "db");
    double *grad = layer_new(COUNT + COLS), *wide = layer_widen(COUNT + COLS, theta);
    for (size_t i = 0; i < COUNT + COLS; i++)
        grad[i] = (double)(i < COUNT ? got_dx[i] : got_db[i - COUNT]);
    problem p = {ROWS, COLS, dy};
    layer_slopes("x and b", loss, &p, COUNT + COLS, wide, grad, 1e-2, 1e-4);
}

static void invalid(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    clprune_relu_mask_sizes sizes = {7, 7};
    assert_int_equal(clprune_relu_mask_size_query(2, 3, NULL), bad);
    assert_int_equal(clprune_relu_mask_size_query(SIZE_MAX, 33, &sizes), CLPRUNE_SIZE_OVERFLOW);
    assert_true(sizes.cols == 0 && sizes.bytes == 0);
    TEST_OK(clprune_relu_mask_size_query(3, 33, &sizes));
    assert_true(sizes.cols == 2 && sizes.bytes == 24);
    test_mat x = test_mat_make(4, 33, 0, NULL), y = test_mat_make(4, 33, 0, NULL);
    test_mat narrow = test_mat_make(4, 32, 0, NULL), mask = test_mat_make(4, 2, 0, NULL);
    test_mat db = test_mat_make(1, 33, 0, NULL);
    clprune_mat shifted = x.mat, inside = x.mat, inside_y = y.mat;
    shifted.offset += 1;
    inside.cols = inside_y.cols = 2;
    inside.rows = inside_y.rows = 4;
    const clprune_mat none = CLPRUNE_NO_MAT, row = clprune_mat_rows(x.mat, 2, 1);
    cl_event event = NULL;
#define FORWARD(...) clprune__relu_forward(__VA_ARGS__, &event)
    assert_int_equal(FORWARD(NULL, x.mat, none, y.mat, none), bad);
    TEST_FAILS(FORWARD(context, x.mat, none, narrow.mat, none), size, "y is");
    TEST_FAILS(FORWARD(context, x.mat, narrow.mat, y.mat, none), size, "b is");
    TEST_FAILS(FORWARD(context, x.mat, none, y.mat, narrow.mat), size, "mask is");
    TEST_FAILS(FORWARD(context, x.mat, none, shifted, none), bad, "y overlaps x");
    TEST_FAILS(FORWARD(context, x.mat, row, y.mat, none), bad, "x overlaps b");
    TEST_FAILS(FORWARD(context, x.mat, none, y.mat, inside), bad, "mask overlaps x");
    TEST_FAILS(FORWARD(context, x.mat, none, y.mat, inside_y), bad, "mask overlaps y");
#define BACKWARD(...) clprune__relu_backward(__VA_ARGS__, &event)
    assert_int_equal(BACKWARD(NULL, 0, x.mat, mask.mat, y.mat, none), bad);
    TEST_FAILS(BACKWARD(context, 0, x.mat, none, y.mat, none), size, "mask is");
    TEST_FAILS(BACKWARD(context, 0, x.mat, narrow.mat, y.mat, none), size, "mask is");
    TEST_FAILS(BACKWARD(context, 0, x.mat, mask.mat, narrow.mat, none), size, "dx is");
    TEST_FAILS(BACKWARD(context, 0, x.mat, mask.mat, y.mat, narrow.mat), size, "db is");
    TEST_FAILS(BACKWARD(context, 0, x.mat, mask.mat, shifted, none), bad, "dx overlaps dy");
    TEST_FAILS(BACKWARD(context, 0, x.mat, inside_y, y.mat, none), bad, "dx overlaps mask");
    TEST_FAILS(BACKWARD(context, 1, x.mat, mask.mat, y.mat, row), bad, "db overlaps dy");
    TEST_FAILS(BACKWARD(context, 1, y.mat, mask.mat, x.mat, row), bad, "db overlaps dx");
    assert_null(event);
    test_mat *mats[] = {&x, &y, &narrow, &mask, &db};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
}

int main(void)
{
    test_list list = {0};
    layer_add_shapes(&list, values, "values");
    layer_add_shapes(&list, bias, "bias");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("relu", &list);
}
