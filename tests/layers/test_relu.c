/* ReLU and ReLU6: forward with a bias and its mask, backward with the bias's gradient, special
 * values. */
#include "nn/layers/activation_private.h"
#include "support/test_layer.h"

static layer_size size_mask(const void *shape)
{
    const layer_shape *s = shape;
    clprune_relu_mask_sizes sizes;
    TEST_OK(clprune_relu_mask_size_query(s->rows, s->cols, &sizes));
    assert_int_equal(sizes.cols, (s->cols + 31) / 32);
    assert_int_equal(sizes.bytes, 4 * s->rows * sizes.cols);
    return (layer_size){s->rows, sizes.cols, s->gap};
}

/* With zeros, so that the border is tested. */
static void with_zeros(const void *shape, size_t count, float *values)
{
    (void)shape;
    for (size_t i = 3; i < count; i += 7)
        values[i] = i % 2 == 0 ? 0.0f : -0.0f;
}

LAYER_CALL(forward,
    clprune__relu_forward(c->context, CLPRUNE_ACTIVATION_RELU, m[0], m[1], m[2], m[3], c->event))

static void ref_capped(const layer_data *d, double top)
{
    for (size_t i = 0; i < d->count; i++) {
        const size_t r = i / d->cols, c = i % d->cols;
        const double x = d->in[i] + (d[1].in != NULL ? d[1].in[c] : 0);
        d[2].want[i] = x > 0 ? fmin(x, top) : 0;
        d[2].bound[i] = d[1].in != NULL ? test_bound(0, 0, x) : 0;
        d[3].want[r * d[3].cols + c / 32] += x > 0 && x < top ? ldexp(1, (int)(c % 32)) : 0;
    }
}

static void ref_forward(const layer_data *d)
{
    ref_capped(d, INFINITY);
}

static void ref_forward_6(const layer_data *d)
{
    ref_capped(d, 6);
}

LAYER_CALL(forward_6,
    clprune__relu_forward(c->context, CLPRUNE_ACTIVATION_RELU6, m[0], m[1], m[2], m[3], c->event))

static void with_borders(const void *shape, size_t count, float *values)
{
    (void)shape;
    for (size_t i = 3; i < count; i += 7)
        values[i] = i % 2 == 0 ? 0.0f : 6.0f;
}

static const layer_case forward_6 = {"forward of relu6",
    {{"x", LAYER_IN, layer_all, .low = -4, .high = 10, .change = with_borders},
        {"b", LAYER_IN | LAYER_OPTIONAL | LAYER_ADDED, layer_row},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0},
        {"mask", LAYER_OUT | LAYER_OPTIONAL | LAYER_BITS, size_mask}},
    call_forward_6, ref_forward_6, NULL};

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, layer_all, .change = with_zeros},
        {"b", LAYER_IN | LAYER_OPTIONAL | LAYER_ADDED, layer_row},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0},
        {"mask", LAYER_OUT | LAYER_OPTIONAL | LAYER_BITS, size_mask}},
    call_forward, ref_forward, NULL};

/* Any bits, and zeros behind each row. */
static void any_mask(const void *shape, size_t count, float *values)
{
    const layer_size all = layer_all(shape), mask = size_mask(shape);
    test_rng rng = {37};
    memset(values, 0, count * sizeof *values);
    for (size_t i = 0; i < all.rows * all.cols; i++) {
        unsigned char *row = (unsigned char *)(values + i / all.cols * mask.cols);
        row[i % all.cols / 8] |= (unsigned char)(test_rng_below(&rng, 2) << i % all.cols % 8);
    }
}

LAYER_CALL(backward, clprune__relu_backward(c->context, c->beta, m[0], m[1], m[2], m[3], c->event))

static void ref_backward(const layer_data *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const size_t r = i / d->cols, c = i % d->cols;
        const uint32_t word = (uint32_t)d[1].in[r * d[1].cols + c / 32];
        d[2].want[i] = (word >> c % 32 & 1) != 0 ? d[0].in[i] : 0;
    }
    layer_set_sums(&d[3], d->rows, d[2].want, NULL);
}

static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, layer_all}, {"mask", LAYER_IN | LAYER_BITS, size_mask, .change = any_mask},
        {"dx", LAYER_OUT, layer_all, .over = 1 << 0},
        {"db", LAYER_OUT | LAYER_SUM | LAYER_OPTIONAL, layer_row}},
    call_backward, ref_backward, NULL};

static void special_values(NO_ROW)
{
    static const float x[] = {
        NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f, -1e-45f, 3.4e38f, -3.4e38f};
    static const bool passes[32] = {1, 1, 1, 0, 0, 0, 1, 0, 1, 0};
    enum { COUNT = COUNT_OF(x) };
    float bad[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        bad[i] = i % 2 == 0 ? NAN : INFINITY;
    test_mat in = test_mat_make(1, COUNT, 0, x), out = test_mat_make(1, COUNT, 0, NULL);
    test_mat mask = test_mat_make(1, 1, 0, NULL), dy = test_mat_make(1, COUNT, 0, bad);
    TEST_OK(clprune__relu_forward(
        test_context(), CLPRUNE_ACTIVATION_RELU, in.mat, CLPRUNE_NO_MAT, out.mat, mask.mat, NULL));
    const float *y = test_mat_get(&out, "y"), *bits = test_mat_get(&mask, "mask");
    assert_true(isnan(y[0]) && isnan(y[1]) && isinf(y[2]));
    for (size_t i = 2; i < COUNT; i++) {
        assert_true(y[i] == (passes[i] ? x[i] : 0.0f));
        assert_false(signbit(y[i]));
    }
    for (size_t i = 0; i < 32; i++)
        assert_int_equal(layer_bit(bits, 1, 0, i), passes[i]);
    /* A gradient that does not pass is 0, whatever it is. */
    TEST_OK(
        clprune__relu_backward(test_context(), 0, dy.mat, mask.mat, out.mat, CLPRUNE_NO_MAT, NULL));
    const float *dx = test_mat_get(&out, "dx");
    for (size_t i = 0; i < COUNT; i++)
        assert_true(passes[i] ? isnan(bad[i]) ? isnan(dx[i]) : isinf(dx[i]) : dx[i] == 0.0f);
}

/* Further from 0 than the steps reach, also with b. */
static void far_from_zero(const void *shape, size_t count, float *values)
{
    (void)shape;
    for (size_t i = 0; i < count; i++)
        values[i] += copysignf(2, values[i]);
}

static void slopes(NO_ROW)
{
    static const layer_shape shape = {11, 37, 0};
    layer_case away = forward;
    away.operands[0].change = far_from_zero;
    away.operands[1].low = -1;
    away.operands[1].high = 1;
    layer_slopes_of(&away, &backward, &shape, (layer_steps){1e-2, 1e-8, 1e-2, 1e-4, 1e-6});
}

int main(void)
{
    test_list list = {0};
    layer_add(&list, &forward);
    layer_add(&list, &forward_6);
    layer_add(&list, &backward);
    test_add(&list, special_values, NULL, "special values, forward and backward");
    test_add(&list, slopes, NULL, "slopes");
    return test_run_on_devices("relu", &list);
}
