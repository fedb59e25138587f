/* Gates: y, and the gradients of both factors, over samples x rows x features; dx also on top of a
 * gradient. */
#include "clprune/gate.h"

#include "support/test_layer.h"

typedef struct shape {
    size_t batch, rows, cols, gap;
} shape;

static const shape shapes[] = {{1, 1, 1, 0}, {3, 1, 16, 0}, {1, 7, 15, 1}, {2, 9, 17, 0},
    {5, 196, 20, 2}, {4, 64, 128, 0}, {3, 5, 4, 0}, {2, 3, 3, 5}, {2, 5, 530, 3}, {2, 3, 2100, 0},
    {300, 1, 40, 1}, {0, 5, 8, 0}, {3, 5, 0, 0}, {0, 0, 0, 0}, {2, 0, 5, 1}};

LAYER_SIZE(size_rows, shape, s->batch * s->rows, s->cols, s->gap)
LAYER_SIZE(size_gates, shape, s->batch, s->cols, s->gap)

LAYER_CALL_OF(
    forward, shape, clprune_gate_forward(c->context, s->batch, m[0], m[1], m[2], c->event))

/* The gate of element i. */
static double gate_of(const shape *s, const double *g, size_t i)
{
    return g[i / s->cols / s->rows * s->cols + i % s->cols];
}

static void ref_forward(const layer_data *d)
{
    for (size_t i = 0; i < d->count; i++) {
        d[2].want[i] = d->in[i] * gate_of(d->shape, d[1].in, i);
        d[2].bound[i] = test_bound(0, 0, d[2].want[i]);
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, size_rows}, {"g", LAYER_IN, size_gates},
        {"y", LAYER_OUT, size_rows, .over = 1 << 0}},
    call_forward, ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_gate_backward(c->context, s->batch, 0, m[0], m[1], m[2], m[3], m[4], c->event))
LAYER_CALL_OF(added, shape,
    clprune_gate_backward(c->context, s->batch, c->beta, m[0], m[1], m[2], m[3], m[4], c->event))

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    double *sizes = test_doubles(d[4].count);
    for (size_t i = 0; i < d->count; i++) {
        const size_t to = i / s->cols / s->rows * s->cols + i % s->cols;
        d[3].want[i] = d[2].in[i] * gate_of(s, d[1].in, i);
        d[3].bound[i] = test_bound(0, 0, d[3].want[i]);
        d[4].want[to] += d[2].in[i] * d->in[i];
        sizes[to] += fabs(d[2].in[i] * d->in[i]);
    }
    for (size_t i = 0; i < d[4].count; i++)
        d[4].bound[i] = test_bound(s->rows, sizes[i], d[4].want[i]);
}

#define OPERANDS(dx)                                                                               \
    {                                                                                              \
        {"x", LAYER_IN, size_rows}, {"g", LAYER_IN, size_gates}, {"dy", LAYER_IN, size_rows}, dx,  \
        {                                                                                          \
            "dg", LAYER_OUT | LAYER_OPTIONAL, size_gates                                           \
        }                                                                                          \
    }
#define DX_OVER                                                                                    \
    {                                                                                              \
        "dx", LAYER_OUT | LAYER_OPTIONAL, size_rows, .over = 1 << 2                                \
    }
#define DX_ADDED                                                                                   \
    {                                                                                              \
        "dx", LAYER_OUT | LAYER_SUM | LAYER_OPTIONAL, size_rows                                    \
    }

static const layer_case backward = {
    "backward", OPERANDS(DX_OVER), call_backward, ref_backward, NULL};
static const layer_case added = {
    "backward, added", OPERANDS(DX_ADDED), call_added, ref_backward, NULL};

static void slopes(NO_ROW)
{
    static const shape few = {3, 7, 18, 0};
    layer_slopes_of(&forward, &backward, &few, (layer_steps){1e-3, 1e-8, 1e-2, 1e-3, 1e-6});
}

/* Rows that are no multiple of the samples; what only one gradient needs may be absent. */
static void sizes(NO_ROW)
{
    const clprune_mat none = CLPRUNE_NO_MAT;
    test_mat x = test_mat_make(12, 5, 0, NULL), g = test_mat_make(3, 5, 0, NULL);
    test_mat y = test_mat_make(12, 5, 0, NULL), few = test_mat_make(5, 5, 0, NULL);
    TEST_FAILS(clprune_gate_forward(test_context(), 5, x.mat, g.mat, y.mat, NULL),
        CLPRUNE_INVALID_SIZE, "x has 12 rows, expected a multiple of batch, 5");
    TEST_FAILS(clprune_gate_forward(test_context(), 3, x.mat, few.mat, y.mat, NULL),
        CLPRUNE_INVALID_SIZE, "g is");
    TEST_FAILS(clprune_gate_backward(test_context(), 3, 0, none, g.mat, y.mat, none, g.mat, NULL),
        CLPRUNE_INVALID_SIZE, "x is");
    TEST_UNCHANGED(&x, &y);
    TEST_OK(clprune_gate_backward(test_context(), 3, 0, x.mat, none, y.mat, none, g.mat, NULL));
    TEST_OK(clprune_gate_backward(test_context(), 3, 0, none, g.mat, y.mat, x.mat, none, NULL));
}

/* Samples of one row: y in the place of either factor, which may be one matrix. */
static void places(NO_ROW)
{
    enum { ROWS = 9, COLS = 21 };
    const float *values = test_new_normal(1, ROWS * COLS),
                *others = test_new_normal(2, ROWS * COLS);
    for (int both = 0; both < 2; both++) {
        test_mat x = test_mat_make(ROWS, COLS, 1, values);
        test_mat g = test_mat_make(ROWS, COLS, 1, others);
        const clprune_mat y = both ? x.mat : g.mat;
        float *got = test_floats(ROWS * COLS);
        TEST_OK(clprune_gate_forward(test_context(), ROWS, x.mat, both ? x.mat : g.mat, y, NULL));
        TEST_OK(clprune_mat_read(test_context(), y, got));
        for (size_t i = 0; i < ROWS * COLS; i++)
            assert_true(got[i] == values[i] * (both ? values : others)[i]);
    }
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward, &added};
    enum { CASES = COUNT_OF(cases) };
    test_list list = {0};
    for (size_t i = 0; i < CASES * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / CASES];
        layer_add_one(&list, cases[i % CASES], s, "%zu x %zu rows x %zu + %zu", s->batch, s->rows,
            s->cols, s->gap);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, sizes, NULL, "sizes");
    test_add(&list, places, NULL, "places");
    return test_run_on_devices("gate", &list);
}
