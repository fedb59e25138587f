/* Weighted sums: with and without b, slopes, one matrix in all places, special values. */
#include "support/test_layer.h"

typedef struct shape {
    layer_shape all;
    float alpha, beta;
} shape;

LAYER_CALL_OF(add, shape, clprune_add(c->context, s->alpha, m[0], s->beta, m[1], m[2], c->event))

/* Each product and the sum are rounded at most once. */
static void ref_add(const layer_data *d)
{
    const shape *s = d->shape;
    for (size_t i = 0; i < d[2].count; i++) {
        const double a = (double)s->alpha * d[0].in[i];
        d[2].want[i] = a + (d[1].in != NULL ? (double)s->beta * d[1].in[i] : 0);
        d[2].bound[i] = test_bound(0, 0, a) + test_bound(0, 0, d[2].want[i]);
    }
}

static const layer_case add = {"add",
    {{"a", LAYER_IN, layer_all}, {"b", LAYER_IN | LAYER_OPTIONAL, layer_all},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0 | 1 << 1}},
    call_add, ref_add, NULL};

/* The gradients: both are the operation itself without b. */
static clprune_status call_backward(const layer_call *c)
{
    const shape *s = c->shape;
    const clprune_status status =
        clprune_add(c->context, s->alpha, c->m[0], 0, CLPRUNE_NO_MAT, c->m[1], NULL);
    return status != CLPRUNE_SUCCESS
               ? status
               : clprune_add(c->context, s->beta, c->m[0], 0, CLPRUNE_NO_MAT, c->m[2], c->event);
}

static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, layer_all}, {"da", LAYER_OUT, layer_all}, {"db", LAYER_OUT, layer_all}},
    call_backward, NULL, NULL};

static void slopes(NO_ROW)
{
    static const shape few = {{11, 37, 0}, 0.75f, -1.25f};
    layer_slopes_of(&add, &backward, &few, (layer_steps){1e-2, 1e-8, 1e-2, 1e-4, 1e-6});
}

/* a, b and y in one matrix: 3 x - x has one rounding. */
static void one_matrix(NO_ROW)
{
    enum { ROWS = 5, COLS = 19 };
    const float *x = test_new_normal(1, (size_t)ROWS * COLS);
    const test_mat m = test_mat_make(ROWS, COLS, 2, x);
    float *want = test_floats((size_t)ROWS * COLS);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        want[i] = fmaf(-1, x[i], 3 * x[i]);
    TEST_OK(clprune_add(test_context(), 3, m.mat, -1, m.mat, m.mat, NULL));
    test_same_floats("y", ROWS, COLS, test_mat_get(&m, "y"), want, "3 x - x");
}

/* Plain sums and factors of 1 are exact, and a factor of 0 hides no NaN. */
static void special_values(NO_ROW)
{
    static const struct {
        float alpha, a, beta, b, y;
    } rows[] = {{1, 0.1f, 1, 0.2f, 0.1f + 0.2f}, {0, NAN, 1, 2, NAN}, {1, 2, 0, NAN, NAN},
        {0, INFINITY, 1, 2, NAN}, {1, 2, 0, -INFINITY, NAN}, {1, INFINITY, 1, 3, INFINITY},
        {1, INFINITY, -1, INFINITY, NAN}, {2, 3e38f, -1, 3e38f, INFINITY},
        {-1, 3e38f, 2, 3e38f, 3e38f}, {NAN, 1, 1, 1, NAN}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const test_mat a = test_mat_make(1, 1, 0, &rows[i].a),
                       b = test_mat_make(1, 1, 0, &rows[i].b), y = test_mat_make(1, 1, 0, NULL);
        TEST_OK(
            clprune_add(test_context(), rows[i].alpha, a.mat, rows[i].beta, b.mat, y.mat, NULL));
        const float got = *test_mat_get(&y, "y");
        if (isnan(rows[i].y) ? !isnan(got) : got != rows[i].y)
            fail_msg("%g * %g + %g * %g is %g, expected %g", (double)rows[i].alpha,
                (double)rows[i].a, (double)rows[i].beta, (double)rows[i].b, (double)got,
                (double)rows[i].y);
    }
    /* Without b, beta is not used. */
    const float two = 2;
    const test_mat a = test_mat_make(1, 1, 0, &two), y = test_mat_make(1, 1, 0, NULL);
    TEST_OK(clprune_add(test_context(), 0.5f, a.mat, NAN, CLPRUNE_NO_MAT, y.mat, NULL));
    assert_true(*test_mat_get(&y, "y") == 1);
}

int main(void)
{
    static const float factors[][2] = {{1, 1}, {0.7f, -1.3f}};
    static shape shapes[COUNT_OF(factors)][LAYER_SHAPES];
    test_list list = {0};
    for (size_t f = 0; f < COUNT_OF(factors); f++)
        for (size_t i = 0; i < LAYER_SHAPES; i++) {
            const layer_shape *s = &layer_shapes[i];
            shapes[f][i] = (shape){*s, factors[f][0], factors[f][1]};
            if (layer_is_wanted(s))
                layer_add_one(&list, &add, &shapes[f][i], "%zu x %zu + %zu, factors %g, %g",
                    s->rows, s->cols, s->gap, (double)factors[f][0], (double)factors[f][1]);
        }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, one_matrix, NULL, "one matrix in all places");
    test_add(&list, special_values, NULL, "special values");
    return test_run_on_devices("add", &list);
}
