/* Responses: y and dx over samples x rows x features, dx also on top of a gradient; features of
 * zeros; bad sizes. */
#include "clprune/response.h"

#include "support/test_layer.h"

typedef struct shape {
    size_t batch, rows, cols, gap;
} shape;

static const float eps = 1e-6f;

static const shape shapes[] = {{1, 1, 1, 0}, {3, 1, 16, 0}, {1, 7, 15, 1}, {2, 9, 17, 0},
    {5, 196, 20, 2}, {4, 64, 128, 0}, {2, 5, 530, 3}, {2, 3, 2100, 0}, {300, 1, 40, 1},
    {0, 5, 8, 0}, {3, 5, 0, 0}};

LAYER_SIZE(size_rows, shape, s->batch * s->rows, s->cols, s->gap)
LAYER_SIZE(size_sample, shape, s->batch, s->cols, s->gap)

/* g of sample n, and the mean of them + eps. */
static double norms(const shape *s, const double *x, size_t n, double *g)
{
    double mean = (double)eps;
    for (size_t c = 0; c < s->cols; c++) {
        double sum = 0;
        for (size_t r = n * s->rows; r < (n + 1) * s->rows; r++)
            sum += x[r * s->cols + c] * x[r * s->cols + c];
        g[c] = sqrt(sum);
        mean += g[c] / (double)s->cols;
    }
    return mean;
}

LAYER_CALL_OF(
    forward, shape, clprune_response_forward(c->context, s->batch, eps, m[0], m[1], c->event))

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    double *g = test_doubles(s->cols);
    for (size_t n = 0; n < s->batch; n++) {
        const double mean = norms(s, d[0].in, n, g);
        for (size_t c = 0; c < s->cols; c++) {
            const size_t i = n * s->cols + c;
            d[1].want[i] = g[c] / mean;
            /* both sums; square roots of 3 ulp, a division of 2.5 */
            d[1].bound[i] = test_bound(2 * s->rows + s->cols + 12, g[c] / mean, g[c] / mean);
        }
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, size_rows}, {"y", LAYER_OUT, size_sample}}, call_forward, ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_response_backward(c->context, s->batch, eps, c->beta, m[0], m[1], m[2], c->event))

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    double *g = test_doubles(s->cols);
    for (size_t n = 0; n < s->batch; n++) {
        const double mean = norms(s, d[0].in, n, g);
        double along = 0, size = 0;
        for (size_t c = 0; c < s->cols; c++) {
            along += d[1].in[n * s->cols + c] * g[c] / mean / (double)s->cols;
            size += fabs(d[1].in[n * s->cols + c] * g[c] / mean / (double)s->cols);
        }
        for (size_t i = n * s->rows * s->cols; i < (n + 1) * s->rows * s->cols; i++) {
            const size_t c = i % s->cols;
            const double dy = d[1].in[n * s->cols + c], factor = d[0].in[i] / g[c] / mean;
            d[2].want[i] = (dy - along) * factor;
            d[2].bound[i] = test_bound(
                2 * s->rows + 2 * s->cols + 24, (fabs(dy) + size) * fabs(factor), d[2].want[i]);
        }
    }
}

static const layer_case backward = {"backward",
    {{"x", LAYER_IN, size_rows}, {"dy", LAYER_IN, size_sample},
        {"dx", LAYER_OUT | LAYER_SUM, size_rows}},
    call_backward, ref_backward, NULL};

static void slopes(NO_ROW)
{
    static const shape few = {3, 7, 18, 0};
    layer_slopes_of(&forward, &backward, &few, (layer_steps){1e-4, 1e-6, 1e-2, 1e-3, 1e-5});
}

/* A feature of zeros has no gradient; a NaN stays in its sample. */
static void special_values(NO_ROW)
{
    enum { COLS = 3 };
    const float rows[4][COLS] = {{3, 0, 1}, {-4, 0, 0}, {NAN, 1, 2}, {1, 1, 1}};
    const float ones[2][COLS] = {{1, 1, 1}, {1, 1, 1}};
    const test_mat x = test_mat_make(4, COLS, 0, rows[0]), y = test_mat_make(2, COLS, 0, NULL),
                   dy = test_mat_make(2, COLS, 0, ones[0]), dx = test_mat_make(4, COLS, 0, NULL);
    TEST_OK(clprune_response_forward(test_context(), 2, eps, x.mat, y.mat, NULL));
    TEST_OK(clprune_response_backward(test_context(), 2, eps, 0, x.mat, dy.mat, dx.mat, NULL));
    const float *got = test_mat_get(&y, "y"), *grads = test_mat_get(&dx, "dx");
    assert_true(fabsf(got[0] - 2.5f) < 1e-5f && got[1] == 0 && fabsf(got[2] - 0.5f) < 1e-5f);
    assert_true(isnan(got[COLS]) && isnan(got[COLS + 1]));
    assert_true(grads[1] == 0 && grads[COLS + 1] == 0 && isfinite(grads[0]));
}

static void refused(NO_ROW)
{
    test_mat x = test_mat_make(12, 5, 0, NULL), y = test_mat_make(5, 5, 0, NULL);
    TEST_FAILS(clprune_response_forward(test_context(), 5, eps, x.mat, y.mat, NULL),
        CLPRUNE_INVALID_SIZE, "x has 12 rows, expected a multiple of batch, 5");
    TEST_FAILS(clprune_response_forward(test_context(), 4, eps, x.mat, y.mat, NULL),
        CLPRUNE_INVALID_SIZE, "y is");
    TEST_FAILS(clprune_response_backward(test_context(), 5, 0, 0, x.mat, y.mat, x.mat, NULL),
        CLPRUNE_INVALID_ARGUMENT, "eps is 0");
    TEST_UNCHANGED(&x, &y);
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward};
    enum { CASES = COUNT_OF(cases) };
    test_list list = {0};
    for (size_t i = 0; i < CASES * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / CASES];
        layer_add_one(&list, cases[i % CASES], s, "%zu x %zu rows x %zu + %zu", s->batch, s->rows,
            s->cols, s->gap);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("response", &list);
}
