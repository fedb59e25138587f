/* Shuffled features: each element's place, for groups that divide the features; the gradient puts
 * each back. */
#include "clprune/shuffle.h"

#include "support/test_layer.h"

typedef struct shape {
    size_t rows, cols, gap, groups;
} shape;

static const shape shapes[] = {{7, 12, 0, 3}, {3, 116, 2, 2}, {5, 64, 0, 32}, {4, 16, 0, 4},
    {4, 15, 1, 1}, {2, 15, 0, 15}, {300, 40, 3, 4}, {2, 2064, 0, 3}, {1, 1, 0, 1}, {0, 8, 0, 2},
    {3, 0, 0, 5}};

LAYER_SIZE(size_rows, shape, s->rows, s->cols, s->gap)

/* y[k * groups + g] = x[g * size + k]: `groups` rows of `size` columns become columns. */
static void shuffle(const layer_data *d, size_t groups)
{
    const size_t cols = d->cols, size = cols / groups;
    for (size_t i = 0; i < d->count; i++) {
        const size_t g = i % cols / size, k = i % cols % size;
        d[1].want[i / cols * cols + k * groups + g] = d->in[i];
    }
}

static void ref_forward(const layer_data *d)
{
    shuffle(d, ((const shape *)d->shape)->groups);
}

/* Of the gradient. */
static size_t back(const shape *s)
{
    return s->cols > 0 ? s->cols / s->groups : 1;
}

static void ref_backward(const layer_data *d)
{
    shuffle(d, back(d->shape));
}

LAYER_CALL_OF(forward, shape, clprune_shuffle(c->context, s->groups, m[0], m[1], c->event))
LAYER_CALL_OF(backward, shape, clprune_shuffle(c->context, back(s), m[0], m[1], c->event))

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, size_rows}, {"y", LAYER_OUT, size_rows}}, call_forward, ref_forward, NULL};
static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, size_rows}, {"dx", LAYER_OUT, size_rows}}, call_backward, ref_backward, NULL};

static void slopes(NO_ROW)
{
    static const shape few = {3, 12, 0, 3};
    layer_slopes_of(&forward, &backward, &few, (layer_steps){1e-2, 1e-8, 1e-2, 1e-5, 1e-6});
}

static void no_divisor(NO_ROW)
{
    test_mat x = test_mat_make(2, 10, 0, NULL), y = test_mat_make(2, 10, 0, NULL);
    TEST_FAILS(clprune_shuffle(test_context(), 4, x.mat, y.mat, NULL), CLPRUNE_INVALID_ARGUMENT,
        "groups is 4, expected a divisor of the 10 columns");
    TEST_FAILS(clprune_shuffle(test_context(), 0, x.mat, y.mat, NULL), CLPRUNE_INVALID_ARGUMENT,
        "groups is 0");
    TEST_UNCHANGED(&x, &y);
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward};
    enum { CASES = COUNT_OF(cases) };
    test_list list = {0};
    for (size_t i = 0; i < CASES * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / CASES];
        layer_add_one(&list, cases[i % CASES], s, "%zu x %zu + %zu, %zu groups", s->rows, s->cols,
            s->gap, s->groups);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, no_divisor, NULL, "no divisor");
    return test_run_on_devices("shuffle", &list);
}
