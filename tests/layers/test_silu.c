/* GELU by tanh, SiLU, tanh, sigmoid, the hard ones and 1 / x: forward with a bias, backward with
 * its gradient, both recomputed; accuracy over the whole line, special values, slopes. What they
 * share with GELU, such as stores, is in test_activation.c. */
#include "nn/layers/activation_private.h"
#include "ref/gelu_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    layer_shape all;
    clprune_activation f;
} shape;

#define CALL_FORWARD(c, m)                                                                         \
    clprune__gelu_forward((c)->context, s->f, (m)[0], (m)[1], (m)[2], (c)->event)

LAYER_CALL_OF(forward, shape, CALL_FORWARD(c, m))

/* h becomes h + b. */
static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    for (size_t i = 0; i < d->count; i++) {
        d->want[i] = d->in[i] + (d[1].in != NULL ? d[1].in[i % d->cols] : 0);
        d->bound[i] = d[1].in != NULL ? test_bound(0, 0, d->want[i]) : 0;
    }
    activation_ref_forward(s->f, d->count, d->want, d[2].want, d[2].bound);
    for (size_t i = 0; i < d->count; i++)
        d[2].bound[i] += 2 * d->bound[i];
}

static const layer_case forward = {"forward",
    {{"h", LAYER_IN | LAYER_OUT, layer_all, .low = -6, .high = 6},
        {"b", LAYER_IN | LAYER_OPTIONAL | LAYER_ADDED, layer_row, .low = -2, .high = 2},
        {"g", LAYER_OUT, layer_all, .over = 1 << 0}},
    call_forward, ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune__gelu_backward(
        c->context, s->f, c->beta, false, m[0], m[1], CLPRUNE_NO_MAT, m[2], m[3], c->event))

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    activation_ref_backward(s->f, d->count, d[0].in, d[1].in, d[2].want, d[2].bound);
    layer_set_sums(&d[3], d->rows, d[2].want, d[2].bound);
}

static const layer_case backward = {"backward",
    {{"h", LAYER_IN, layer_all, .low = -6, .high = 6}, {"dg", LAYER_IN, layer_all},
        {"dh", LAYER_OUT, layer_all, .over = 1 << 0 | 1 << 1},
        {"db", LAYER_OUT | LAYER_SUM | LAYER_OPTIONAL, layer_row}},
    call_backward, ref_backward, NULL};

LAYER_CALL_OF(recompute, shape,
    clprune__gelu_backward(c->context, s->f, c->beta, true, m[0], m[1], m[2], m[3], m[4], c->event))

static void ref_recompute(const layer_data *d)
{
    const shape *s = d->shape;
    activation_ref_forward(s->f, d->count, d[0].in, d[2].want, d[2].bound);
    activation_ref_backward(s->f, d->count, d[0].in, d[1].in, d[3].want, d[3].bound);
    layer_set_sums(&d[4], d->rows, d[3].want, d[3].bound);
}

static const layer_case recompute = {"recompute",
    {{"h", LAYER_IN, layer_all, .low = -6, .high = 6}, {"dg", LAYER_IN, layer_all},
        {"g", LAYER_OUT, layer_all, .over = 1 << 0}, {"dh", LAYER_OUT, layer_all, .over = 1 << 1},
        {"db", LAYER_OUT | LAYER_SUM | LAYER_OPTIONAL, layer_row}},
    call_recompute, ref_recompute, NULL};

/* Both directions on `count` numbers, with dg = 1. */
static void compare(clprune_activation f, size_t count, const float *h, const char *what)
{
    const size_t mark = test_mark();
    const float *ones = layer_same_values(count, 1);
    const double *wide = layer_widen(count, h), *wide_ones = layer_widen(count, ones);
    double *want = test_doubles(count), *bound = test_doubles(count);
    test_mat in = test_mat_make(1, count, 0, h), gradient = test_mat_make(1, count, 0, ones);
    test_mat out = test_mat_make(1, count, 0, NULL);
    activation_ref_forward(f, count, wide, want, bound);
    TEST_OK(clprune__gelu_forward(test_context(), f, in.mat, CLPRUNE_NO_MAT, out.mat, NULL));
    layer_check("g", &out, want, bound, what);
    activation_ref_backward(f, count, wide, wide_ones, want, bound);
    TEST_OK(clprune__gelu_backward(test_context(), f, 0, false, in.mat, gradient.mat,
        CLPRUNE_NO_MAT, out.mat, CLPRUNE_NO_MAT, NULL));
    layer_check("slope", &out, want, bound, what);
    test_release(mark);
}

static void accuracy(void **state)
{
    enum { COUNT = 65536 };
    const clprune_activation f = *(const clprune_activation *)*state;
    static float h[COUNT];
    for (int i = 0; i < COUNT; i++)
        h[i] = -16.0f + 32.0f * (float)i / COUNT;
    compare(f, COUNT, h, "evenly from -16 to 16");
    for (int i = 0; i < COUNT; i++)
        h[i] = -128.0f + 256.0f * (float)i / COUNT;
    compare(f, COUNT, h, "evenly from -128 to 128");
    for (int i = 0; i < COUNT; i++)
        h[i] = ldexpf(i % 2 == 0 ? 1.3f : -1.3f, -140 + i / 2 % 150);
    compare(f, COUNT, h, "powers of two");
}

static void special_values(void **state)
{
    const clprune_activation f = *(const clprune_activation *)*state;
    static const float h[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0f, -0.0f, 1e30f, -1e30f, 1e-45f,
        -1e-45f, 3.4e38f, -3.4e38f, 3.0f, -3.0f, 15.0f, -15.0f, 15.1f, -15.1f, 105.0f, -105.0f, 106,
        -106, 1.0f};
    enum { COUNT = COUNT_OF(h) };
    compare(f, COUNT, h, "special values");
    for (size_t i = 0; i < COUNT; i++) {
        const float pair[2] = {h[i], i % 2 == 0 ? NAN : 2.0f};
        compare(f, 1, pair, "one special value");
        compare(f, 2, pair, "a special value and its neighbour");
    }
}

enum { KINDS = 7 };

static const clprune_activation kinds[KINDS] = {CLPRUNE_ACTIVATION_GELU_TANH,
    CLPRUNE_ACTIVATION_SILU, CLPRUNE_ACTIVATION_TANH, CLPRUNE_ACTIVATION_HARD_SIGMOID,
    CLPRUNE_ACTIVATION_HARD_SWISH, CLPRUNE_ACTIVATION_SIGMOID, CLPRUNE_ACTIVATION_RECIPROCAL};

/* Further from -3 and 3, or from 0, than the steps reach. */
static void off_corners(const void *of, size_t count, float *values)
{
    const shape *s = of;
    const bool hard =
        s->f == CLPRUNE_ACTIVATION_HARD_SIGMOID || s->f == CLPRUNE_ACTIVATION_HARD_SWISH;
    for (size_t i = 0; i < count && hard; i++)
        if (fabsf(fabsf(values[i]) - 3) < 0.02f)
            values[i] *= 1.02f;
    for (size_t i = 0; i < count && s->f == CLPRUNE_ACTIVATION_RECIPROCAL; i++)
        values[i] += copysignf(1, values[i]);
}

static void slopes(void **state)
{
    const shape few = {{60, 9, 0}, *(const clprune_activation *)*state};
    const layer_steps steps = {1e-4, 1e-7, 1e-2, 1e-3, 1e-6};
    layer_case biased = forward;
    biased.operands[1].change = layer_zeros;
    layer_case cases[] = {backward, recompute};
    biased.operands[0].change = off_corners;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        cases[i].operands[0].change = off_corners;
        layer_slopes_of(&biased, &cases[i], &few, steps);
    }
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward, &recompute};
    static const char *const names[KINDS] = {
        "gelu tanh", "silu", "tanh", "hard sigmoid", "hard swish", "sigmoid", "1 / x"};
    static shape shapes[KINDS * LAYER_SHAPES];
    test_list list = {0};
    for (size_t i = 0; i < KINDS * LAYER_SHAPES; i++) {
        shapes[i] = (shape){layer_shapes[i / KINDS], kinds[i % KINDS]};
        const layer_shape *s = &shapes[i].all;
        /* Their kernels differ in the formula alone: each shape has one of the kinds, a few all. */
        const bool all = (s->rows == 7 && s->cols < 6) || s->rows == 60;
        const bool taken = all || i / KINDS % KINDS == i % KINDS;
        for (size_t c = 0; c < COUNT_OF(cases) && taken && layer_is_wanted(s); c++)
            layer_add_one(&list, cases[c], &shapes[i], "%s, %zu x %zu + %zu", names[i % KINDS],
                s->rows, s->cols, s->gap);
    }
    for (size_t i = 0; i < KINDS; i++) {
        test_add(&list, accuracy, &kinds[i], "accuracy of %s", names[i]);
        test_add(&list, special_values, &kinds[i], "special values of %s", names[i]);
        test_add(&list, slopes, &kinds[i], "slopes of %s", names[i]);
    }
    return test_run_on_devices("silu", &list);
}
