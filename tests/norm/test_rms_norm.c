/* RMS norm: inv, y and gradients of all shapes, with and without gamma; a kept inv gives the bits
 * of y; NaN; slopes. */
#include "clprune/rms_norm.h"

#include "support/test_layer.h"

#define NONE CLPRUNE_NO_MAT
#define UNIT 0x1p-24

static const float eps = 1e-5f;

LAYER_SIZE(size_inv, layer_shape, s->rows, 1, s->gap)

/* Rows of all kinds: as they are, large, small, 0. */
static void mixed_rows(const void *shape, size_t count, float *values)
{
    static const float factors[] = {1, 1e4f, 1e-3f, 0};
    const size_t cols = ((const layer_shape *)shape)->cols;
    for (size_t i = 0; i < count; i++)
        values[i] *= factors[i / cols % 4];
}

/* ---- forward ---- */

static void ref_inv(const layer_data *x, const layer_data *inv)
{
    const double n = x->cols > 0 ? (double)x->cols : 1;
    for (size_t r = 0; r < x->rows; r++) {
        double sum = 0;
        for (size_t c = 0; c < x->cols; c++)
            sum += x->in[r * x->cols + c] * x->in[r * x->cols + c];
        const double mean = sum / n + (double)eps;
        inv->want[r] = 1 / sqrt(mean);
        /* besides the mean's: sqrt 3 ulp, division 2.5 ulp, an addition */
        inv->bound[r] = 0.5 * inv->want[r] / mean * test_bound(x->cols + 1, mean, mean) +
                        6 * 2 * UNIT * inv->want[r];
    }
}

/* y from x, inv and gamma (NULL: none). */
static void ref_y(const layer_data *x, const double *inv, const double *inv_bound,
    const double *gamma, const layer_data *y)
{
    for (size_t i = 0; i < x->count; i++) {
        const size_t r = i / x->cols;
        const double factor = (gamma != NULL ? gamma[i % x->cols] : 1) * x->in[i];
        y->want[i] = factor * inv[r];
        y->bound[i] =
            3 * UNIT * fabs(y->want[i]) + (inv_bound != NULL ? fabs(factor) * inv_bound[r] : 0);
    }
}

LAYER_CALL(forward, clprune_rms_norm_forward(c->context, eps, m[0], m[1], m[2], m[3], c->event))

static void ref_forward(const layer_data *d)
{
    ref_inv(&d[0], &d[3]);
    ref_y(&d[0], d[3].want, d[3].bound, d[1].in, &d[2]);
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, layer_all, .change = mixed_rows},
        {"gamma", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0}, {"inv", LAYER_OUT | LAYER_OPTIONAL, size_inv}},
    call_forward, ref_forward, NULL};

LAYER_CALL(plain, clprune_rms_norm_forward(c->context, eps, m[0], NONE, m[1], m[2], c->event))

static void ref_plain(const layer_data *d)
{
    ref_inv(&d[0], &d[2]);
    ref_y(&d[0], d[2].want, d[2].bound, NULL, &d[1]);
}

static const layer_case plain = {"forward without gamma",
    {{"x", LAYER_IN, layer_all, .change = mixed_rows}, {"y", LAYER_OUT, layer_all, .over = 1 << 0},
        {"inv", LAYER_OUT | LAYER_OPTIONAL, size_inv}},
    call_plain, ref_plain, NULL};

LAYER_CALL(apply, clprune_rms_norm_apply(c->context, m[0], m[1], m[2], m[3], c->event))

static void ref_apply(const layer_data *d)
{
    ref_y(&d[0], d[1].in, NULL, d[2].in, &d[3]);
}

static const layer_case apply = {"apply",
    {{"x", LAYER_IN, layer_all}, {"inv", LAYER_IN, size_inv, .low = 0.5f, .high = 2},
        {"gamma", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0}},
    call_apply, ref_apply, NULL};

static void applied(void **state)
{
    const layer_shape *s = *state;
    float *values = test_new_normal(41, s->rows * s->cols);
    mixed_rows(s, s->rows * s->cols, values);
    test_mat x = test_mat_make(s->rows, s->cols, s->gap, values);
    test_mat gamma = test_mat_make(1, s->cols, 0, test_new_uniform(42, 0.5f, 1.5f, s->cols));
    test_mat y = test_mat_make(s->rows, s->cols, 0, NULL);
    test_mat again = test_mat_make(s->rows, s->cols, 2, NULL);
    test_mat inv = test_mat_make(s->rows, 1, 1, NULL);
    for (int way = 0; way < 2; way++) {
        const clprune_mat g = way == 0 ? gamma.mat : NONE;
        TEST_OK(clprune_rms_norm_forward(test_context(), eps, x.mat, g, y.mat, inv.mat, NULL));
        TEST_OK(clprune_rms_norm_apply(test_context(), x.mat, inv.mat, g, again.mat, NULL));
        layer_same("y", &y, &again);
    }
}

/* ---- backward ---- */

/* dx: NULL for none; old: NULL, or what it is added to. */
static void ref_gradients(const layer_data *x, const double *inv, const double *gamma,
    const double *dy, const layer_data *dx, const layer_data *dgamma)
{
    const size_t rows = x->rows, cols = x->cols;
    double *products = test_doubles(x->count);
    for (size_t r = 0; r < rows; r++) {
        double along = 0, size = 0;
        for (size_t c = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            products[i] = dy[i] * x->in[i] * inv[r];
            along += (gamma != NULL ? gamma[c] : 1) * products[i] / (double)cols;
            size += fabs((gamma != NULL ? gamma[c] : 1) * products[i]) / (double)cols;
        }
        for (size_t c = 0; c < cols && dx != NULL; c++) {
            const size_t i = r * cols + c;
            const double g = (gamma != NULL ? gamma[c] : 1) * dy[i], xhat = x->in[i] * inv[r];
            dx->want[i] = inv[r] * (g - xhat * along);
            dx->bound[i] = test_bound(8, inv[r] * (fabs(g) + fabs(xhat * along)), dx->want[i]) +
                           inv[r] * fabs(xhat) * test_bound(cols + 4, size, along);
        }
    }
    double *bounds = test_doubles(x->count);
    for (size_t i = 0; i < x->count; i++)
        bounds[i] = 2 * UNIT * fabs(products[i]);
    if (dgamma != NULL)
        layer_set_sums(dgamma, rows, products, bounds);
}

#define IN_BACKWARD                                                                                \
    {"x", LAYER_IN, layer_all}, {"inv", LAYER_IN, size_inv, .low = 0.5f, .high = 2},               \
        {"gamma", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f},                                 \
    {                                                                                              \
        "dy", LAYER_IN, layer_all                                                                  \
    }

LAYER_CALL(backward,
    clprune_rms_norm_backward(c->context, c->beta, 0, m[0], m[1], m[2], m[3], m[4], m[5], c->event))

static void ref_backward(const layer_data *d)
{
    ref_gradients(&d[0], d[1].in, d[2].in, d[3].in, &d[4], &d[5]);
}

static const layer_case backward = {"backward",
    {IN_BACKWARD, {"dx", LAYER_OUT | LAYER_OPTIONAL, layer_all, .over = 1 << 3},
        {"dgamma", LAYER_OUT | LAYER_OPTIONAL | LAYER_SUM, layer_row}},
    call_backward, ref_backward, NULL};

LAYER_CALL(adds,
    clprune_rms_norm_backward(c->context, 0, c->beta, m[0], m[1], m[2], m[3], m[4], NONE, c->event))

static void ref_adds(const layer_data *d)
{
    ref_gradients(&d[0], d[1].in, d[2].in, d[3].in, &d[4], NULL);
}

static const layer_case adds = {"backward, added to dx",
    {IN_BACKWARD, {"dx", LAYER_OUT | LAYER_SUM, layer_all}}, call_adds, ref_adds, NULL};

LAYER_CALL(bare,
    clprune_rms_norm_backward(c->context, c->beta, 0, m[0], m[1], NONE, m[2], m[3], m[4], c->event))

static void ref_bare(const layer_data *d)
{
    ref_gradients(&d[0], d[1].in, NULL, d[2].in, &d[3], &d[4]);
}

static const layer_case bare = {"backward without gamma",
    {{"x", LAYER_IN, layer_all}, {"inv", LAYER_IN, size_inv, .low = 0.5f, .high = 2},
        {"dy", LAYER_IN, layer_all}, {"dx", LAYER_OUT, layer_all, .over = 1 << 2},
        {"dgamma", LAYER_OUT | LAYER_OPTIONAL | LAYER_SUM, layer_row}},
    call_bare, ref_bare, NULL};

static void slopes(NO_ROW)
{
    static const layer_shape shape = {11, 37, 0};
    layer_case normal = forward;
    normal.operands[0].change = NULL;
    layer_slopes_of(&normal, &backward, &shape, (layer_steps){1e-4, 1e-6, 1e-2, 2e-3, 1e-5});
}

/* A NaN or an infinity stays in its row. */
static void special_values(NO_ROW)
{
    enum { COLS = 5 };
    const float rows[4][COLS] = {
        {1, 2, NAN, 4, 5}, {1, 2, 3, 4, 5}, {1, INFINITY, 3, 4, 5}, {0, 0, 0, 0, 0}};
    test_mat x = test_mat_make(4, COLS, 0, rows[0]), y = test_mat_make(4, COLS, 0, NULL);
    TEST_OK(clprune_rms_norm_forward(test_context(), eps, x.mat, NONE, y.mat, NONE, NULL));
    const float *got = test_mat_get(&y, "y");
    for (size_t c = 0; c < COLS; c++) {
        assert_true(isnan(got[c]) && got[3 * COLS + c] == 0);
        assert_true(fabsf(got[COLS + c] - (float)(1 + c) / sqrtf(11 + eps)) < 1e-6f);
    }
    assert_true(isnan(got[2 * COLS + 1]));
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &plain, &apply, &backward, &adds, &bare};
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        layer_add(&list, cases[i]);
    layer_add_shapes(&list, applied, "y from a kept inv");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, special_values, NULL, "special values");
    return test_run_on_devices("rms_norm", &list);
}
