/* Positions: forward, also of the parameter alone, and backward over samples x rows x features. */
#include "clprune/positions.h"

#include "support/test_layer.h"

typedef struct shape {
    size_t batch, rows, cols, gap;
} shape;

static const shape shapes[] = {{1, 1, 1, 0}, {3, 1, 16, 0}, {1, 7, 15, 1}, {2, 9, 17, 0},
    {5, 65, 20, 2}, {4, 64, 128, 0}, {3, 5, 4, 0}, {2, 3, 3, 5}, {2, 5, 530, 3}, {60, 3, 2100, 0},
    {1100, 1, 20, 3}, {0, 1, 8, 0}, {0, 5, 8, 0}, {3, 5, 0, 0}, {0, 0, 0, 0}, {2, 0, 5, 1}};

LAYER_SIZE(size_all, shape, s->batch * s->rows, s->cols, s->gap)
LAYER_SIZE(size_param, shape, s->rows, s->cols, s->gap)

LAYER_CALL_OF(
    forward, shape, clprune_positions_forward(c->context, s->batch, m[0], m[1], m[2], c->event))

static void ref_forward(const layer_data *d)
{
    for (size_t i = 0; i < d[2].count; i++) {
        d[2].want[i] = d[0].in[i] + d[1].in[i % d[1].count];
        d[2].bound[i] = test_bound(0, 0, d[2].want[i]);
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, size_all}, {"p", LAYER_IN, size_param},
        {"y", LAYER_OUT, size_all, .over = 1 << 0}},
    call_forward, ref_forward, NULL};

LAYER_CALL_OF(alone, shape,
    clprune_positions_forward(c->context, s->batch, CLPRUNE_NO_MAT, m[0], m[1], c->event))

static void ref_alone(const layer_data *d)
{
    for (size_t i = 0; i < d[1].count; i++)
        d[1].want[i] = d[0].in[i % d[0].count];
}

static const layer_case alone = {"forward without x",
    {{"p", LAYER_IN, size_param}, {"y", LAYER_OUT, size_all}}, call_alone, ref_alone, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_positions_backward(c->context, s->batch, c->beta, m[0], m[1], c->event))

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    layer_data flat = d[1];
    flat.rows = 1;
    flat.cols = d[1].count;
    layer_set_sums(&flat, s->batch, d[0].in, NULL);
}

static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, size_all}, {"dp", LAYER_OUT | LAYER_SUM, size_param}}, call_backward,
    ref_backward, NULL};

static void slopes(NO_ROW)
{
    static const shape few = {3, 7, 18, 0};
    layer_slopes_of(&alone, &backward, &few, (layer_steps){1e-3, 1e-8, 1e-2, 1e-3, 1e-6});
}

static void many_samples(NO_ROW)
{
    test_mat x = test_mat_make(12, 5, 0, NULL), p = test_mat_make(4, 5, 0, NULL);
    TEST_FAILS(
        clprune_positions_forward(test_context(), SIZE_MAX, CLPRUNE_NO_MAT, p.mat, x.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_FAILS(clprune_positions_backward(test_context(), SIZE_MAX, 0, x.mat, p.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_UNCHANGED(&x, &p);
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &alone, &backward};
    test_list list = {0};
    for (size_t i = 0; i < 3 * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / 3];
        layer_add_one(&list, cases[i % 3], s, "%zu x %zu rows x %zu + %zu", s->batch, s->rows,
            s->cols, s->gap);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, many_samples, NULL, "too many samples");
    return test_run_on_devices("positions", &list);
}
