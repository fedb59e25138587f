/* Softmax: y and dx, dx also on top of a gradient; slopes; large, infinite and absent values. */
#include "clprune/softmax.h"

#include "support/test_layer.h"

LAYER_CALL(forward, clprune_softmax_forward(c->context, m[0], m[1], c->event))

static void ref_forward(const layer_data *d)
{
    for (size_t r = 0; r < d->rows; r++) {
        const double *x = d->in + r * d->cols;
        double most = -INFINITY, sum = 0;
        for (size_t c = 0; c < d->cols; c++)
            most = fmax(most, x[c]);
        for (size_t c = 0; c < d->cols; c++)
            sum += exp(x[c] - most);
        for (size_t c = 0; c < d->cols; c++) {
            const double y = exp(x[c] - most) / sum;
            d[1].want[r * d->cols + c] = y;
            /* a difference, whose error exp turns into a factor; the sum; a division of 2.5 ulp */
            d[1].bound[r * d->cols + c] = test_bound(d->cols + 8, (2 + fabs(x[c] - most)) * y, y);
        }
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, layer_all}, {"y", LAYER_OUT, layer_all, .over = 1 << 0}}, call_forward,
    ref_forward, NULL};

LAYER_CALL(backward, clprune_softmax_backward(c->context, 0, m[0], m[1], m[2], c->event))
LAYER_CALL(adds, clprune_softmax_backward(c->context, c->beta, m[0], m[1], m[2], c->event))

/* Of any y, so that nothing depends on the forward pass. */
static void ref_backward(const layer_data *d)
{
    for (size_t r = 0; r < d->rows; r++) {
        const double *y = d->in + r * d->cols, *dy = d[1].in + r * d->cols;
        double along = 0, size = 0;
        for (size_t c = 0; c < d->cols; c++) {
            along += y[c] * dy[c];
            size += fabs(y[c] * dy[c]);
        }
        for (size_t c = 0; c < d->cols; c++) {
            const double want = y[c] * (dy[c] - along);
            d[2].want[r * d->cols + c] = want;
            d[2].bound[r * d->cols + c] =
                test_bound(d->cols + 4, fabs(y[c]) * (fabs(dy[c]) + size), want);
        }
    }
}

static const layer_case backward = {"backward",
    {{"y", LAYER_IN, layer_all}, {"dy", LAYER_IN, layer_all},
        {"dx", LAYER_OUT, layer_all, .over = 1 << 1}},
    call_backward, ref_backward, NULL};
static const layer_case adds = {"backward, added",
    {{"y", LAYER_IN, layer_all}, {"dy", LAYER_IN, layer_all},
        {"dx", LAYER_OUT | LAYER_SUM, layer_all}},
    call_adds, ref_backward, NULL};

/* The gradient of weights[c] * y[c] is that of differences. */
static void slopes(NO_ROW)
{
    enum { COLS = 5 };
    const float x[COLS] = {0.3f, -1.2f, 2, 0, -0.4f}, weights[COLS] = {1, -2, 0.5f, 3, 1.5f};
    const test_mat in = test_mat_make(1, COLS, 0, x), y = test_mat_make(1, COLS, 0, NULL),
                   dy = test_mat_make(1, COLS, 0, weights), dx = test_mat_make(1, COLS, 0, NULL);
    TEST_OK(clprune_softmax_forward(test_context(), in.mat, y.mat, NULL));
    TEST_OK(clprune_softmax_backward(test_context(), 0, y.mat, dy.mat, dx.mat, NULL));
    const float *got = test_mat_get(&dx, "dx");
    for (size_t k = 0; k < COLS; k++) {
        double loss[2] = {0, 0};
        for (int side = 0; side < 2; side++) {
            double sum = 0, weighted = 0;
            for (size_t c = 0; c < COLS; c++) {
                const double e = exp((double)x[c] + (c == k ? (side ? 1e-4 : -1e-4) : 0));
                sum += e;
                weighted += e * (double)weights[c];
            }
            loss[side] = weighted / sum;
        }
        assert_true(fabs((loss[1] - loss[0]) / 2e-4 - (double)got[k]) < 1e-6);
    }
}

static void special_values(NO_ROW)
{
    enum { ROWS = 5, COLS = 3 };
    const float x[ROWS][COLS] = {{3e38f, 3e38f, -3e38f}, {-INFINITY, 0, 0}, {NAN, 1, 2},
        {INFINITY, 1, 2}, {-INFINITY, -INFINITY, -INFINITY}};
    const test_mat in = test_mat_make(ROWS, COLS, 0, x[0]),
                   out = test_mat_make(ROWS, COLS, 0, NULL);
    TEST_OK(clprune_softmax_forward(test_context(), in.mat, out.mat, NULL));
    const float *y = test_mat_get(&out, "y");
    assert_true(y[0] == 0.5f && y[1] == 0.5f && y[2] == 0);
    assert_true(y[3] == 0 && y[4] == 0.5f && y[5] == 0.5f);
    for (size_t i = 2 * COLS; i < ROWS * COLS; i++)
        assert_true(isnan(y[i]));
}

int main(void)
{
    test_list list = {0};
    layer_add(&list, &forward);
    layer_add(&list, &backward);
    layer_add(&list, &adds);
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, special_values, NULL, "special values");
    return test_run_on_devices("softmax", &list);
}
