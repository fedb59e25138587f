/* SwiGLU, and gated units of other activations: both directions of all shapes, special values,
 * slopes.
 */
#include "clprune/swiglu.h"

#include "ref/gelu_ref.h"
#include "support/test_layer.h"

typedef struct glu_shape {
    layer_shape all;
    clprune_activation f;
} glu_shape;

LAYER_SIZE(size_both, layer_shape, s->rows, 2 * s->cols, s->gap)

LAYER_CALL_OF(forward, glu_shape, clprune_glu_forward(c->context, s->f, m[0], m[1], c->event))

/* f(a), its slope, and the bounds of both. */
static double gate_of(
    clprune_activation f, double a, double *slope, double *bound, double *slope_bound)
{
    const double one = 1;
    double value;
    activation_ref_forward(f, 1, &a, &value, bound);
    activation_ref_backward(f, 1, &a, &one, slope, slope_bound);
    return value;
}

static void ref_forward(const layer_data *d)
{
    const clprune_activation f = ((const glu_shape *)d->shape)->f;
    const size_t cols = d[1].cols;
    for (size_t i = 0; i < d[1].count; i++) {
        const double *x = d[0].in + i / cols * 2 * cols + i % cols;
        double slope, bound, slope_bound;
        d[1].want[i] = gate_of(f, x[0], &slope, &bound, &slope_bound) * x[cols];
        d[1].bound[i] = bound * fabs(x[cols]) + test_bound(0, 0, d[1].want[i]);
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, size_both, .low = -6, .high = 6}, {"y", LAYER_OUT, layer_all}}, call_forward,
    ref_forward, NULL};

LAYER_CALL_OF(
    backward, glu_shape, clprune_glu_backward(c->context, s->f, m[0], m[1], m[2], c->event))

static void ref_backward(const layer_data *d)
{
    const clprune_activation f = ((const glu_shape *)d->shape)->f;
    const size_t cols = d[1].cols;
    for (size_t i = 0; i < d[1].count; i++) {
        const size_t at = i / cols * 2 * cols + i % cols;
        const double a = d[0].in[at], b = d[0].in[at + cols], dy = d[1].in[i];
        double slope, bound, slope_bound;
        const double gate = gate_of(f, a, &slope, &bound, &slope_bound);
        d[2].want[at] = dy * b * slope;
        d[2].bound[at] = fabs(dy * b) * slope_bound + test_bound(0, 0, 2 * d[2].want[at]);
        d[2].want[at + cols] = dy * gate;
        d[2].bound[at + cols] = fabs(dy) * bound + test_bound(0, 0, d[2].want[at + cols]);
    }
}

static const layer_case backward = {"backward",
    {{"x", LAYER_IN, size_both, .low = -6, .high = 6}, {"dy", LAYER_IN, layer_all},
        {"dx", LAYER_OUT, size_both, .over = 1 << 0}},
    call_backward, ref_backward, NULL};

/* After SiLU in all shapes. */
static const glu_shape others[] = {{{7, 17, 3}, CLPRUNE_ACTIVATION_GELU},
    {{7, 17, 3}, CLPRUNE_ACTIVATION_GELU_TANH}, {{60, 100, 5}, CLPRUNE_ACTIVATION_GELU_TANH},
    {{7, 17, 3}, CLPRUNE_ACTIVATION_TANH}, {{7, 17, 3}, CLPRUNE_ACTIVATION_HARD_SIGMOID},
    {{7, 17, 3}, CLPRUNE_ACTIVATION_HARD_SWISH}, {{7, 17, 3}, CLPRUNE_ACTIVATION_SIGMOID}};

static void slopes(NO_ROW)
{
    static const glu_shape shape = {{11, 19, 0}, CLPRUNE_ACTIVATION_SILU};
    layer_slopes_of(&forward, &backward, &shape, (layer_steps){1e-4, 1e-6, 1e-2, 1e-3, 1e-5});
}

/* A gate that is closed passes nothing, whatever a finite b is; a NaN stays where it is. */
static void special_values(NO_ROW)
{
    const float values[] = {-INFINITY, -200, INFINITY, NAN, 0, 3e38f, -3e38f, 2, 5, 7};
    test_mat x = test_mat_make(1, 10, 0, values), y = test_mat_make(1, 5, 0, NULL);
    TEST_OK(clprune_glu_forward(test_context(), CLPRUNE_ACTIVATION_SILU, x.mat, y.mat, NULL));
    const float *got = test_mat_get(&y, "y");
    assert_true(
        got[0] == 0 && fabsf(got[1]) < 1 && got[2] == INFINITY && isnan(got[3]) && got[4] == 0);
}

static void refused(NO_ROW)
{
    test_mat x = test_mat_make(3, 9, 0, NULL), y = test_mat_make(3, 4, 0, NULL);
    TEST_FAILS(clprune_glu_forward(test_context(), CLPRUNE_ACTIVATION_SILU, x.mat, y.mat, NULL),
        CLPRUNE_INVALID_SIZE, "x is 3 x 9, expected 3 x 8");
    const clprune_activation none[] = {CLPRUNE_ACTIVATION_RELU, CLPRUNE_ACTIVATION_RELU6,
        (clprune_activation)(CLPRUNE_ACTIVATION_SIGMOID + 1)};
    x.mat.cols = 8;
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        TEST_FAILS(clprune_glu_forward(test_context(), none[i], x.mat, y.mat, NULL),
            CLPRUNE_INVALID_ARGUMENT, "expected that of a gated unit");
        TEST_FAILS(clprune_glu_backward(test_context(), none[i], x.mat, y.mat, x.mat, NULL),
            CLPRUNE_INVALID_ARGUMENT, "expected that of a gated unit");
    }
    y.mat.cols = SIZE_MAX;
    TEST_FAILS(clprune_glu_forward(test_context(), CLPRUNE_ACTIVATION_SILU, x.mat, y.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, "columns");
    TEST_FAILS(
        clprune_glu_backward(test_context(), CLPRUNE_ACTIVATION_SILU, x.mat, y.mat, x.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, "columns");
}

int main(void)
{
    test_list list = {0};
    static glu_shape cases[LAYER_SHAPES + COUNT_OF(others)];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        glu_shape *c = &cases[i];
        if (i < LAYER_SHAPES)
            *c = (glu_shape){layer_shapes[i], CLPRUNE_ACTIVATION_SILU};
        else
            *c = others[i - LAYER_SHAPES];
        if (!layer_is_wanted(&c->all))
            continue;
        layer_add_one(
            &list, &forward, c, "%zu x %zu, activation %d", c->all.rows, c->all.cols, (int)c->f);
        layer_add_one(
            &list, &backward, c, "%zu x %zu, activation %d", c->all.rows, c->all.cols, (int)c->f);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("swiglu", &list);
}
