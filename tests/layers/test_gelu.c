/* GELU: forward with a bias, backward with its gradient, both recomputed; accuracy over the whole
 * line, special values. */
#include "nn/layers/activation_private.h"
#include "ref/gelu_ref.h"
#include "support/test_layer.h"

LAYER_CALL(forward, clprune_gelu_forward(c->context, m[0], m[1], m[2], c->event))

/* h becomes h + b. */
static void ref_forward(const layer_data *d)
{
    for (size_t i = 0; i < d->count; i++) {
        d->want[i] = d->in[i] + (d[1].in != NULL ? d[1].in[i % d->cols] : 0);
        d->bound[i] = d[1].in != NULL ? test_bound(0, 0, d->want[i]) : 0;
    }
    gelu_ref_forward(d->count, d->want, d[2].want, d[2].bound);
    for (size_t i = 0; i < d->count; i++)
        d[2].bound[i] += 2 * d->bound[i];
}

static const layer_case forward = {"forward",
    {{"h", LAYER_IN | LAYER_OUT, layer_all, .low = -6, .high = 6},
        {"b", LAYER_IN | LAYER_OPTIONAL | LAYER_ADDED, layer_row, .low = -2, .high = 2},
        {"g", LAYER_OUT, layer_all, .over = 1 << 0}},
    call_forward, ref_forward, NULL};

LAYER_CALL(backward, clprune_gelu_backward(c->context, c->beta, m[0], m[1], m[2], m[3], c->event))

static void ref_backward(const layer_data *d)
{
    gelu_ref_backward(d->count, d[0].in, d[1].in, d[2].want, d[2].bound);
    layer_set_sums(&d[3], d->rows, d[2].want, d[2].bound);
}

static const layer_case backward = {"backward",
    {{"h", LAYER_IN, layer_all, .low = -6, .high = 6}, {"dg", LAYER_IN, layer_all},
        {"dh", LAYER_OUT, layer_all, .over = 1 << 0 | 1 << 1},
        {"db", LAYER_OUT | LAYER_SUM | LAYER_OPTIONAL, layer_row}},
    call_backward, ref_backward, NULL};

LAYER_CALL(recompute, clprune__gelu_backward(c->context, CLPRUNE_ACTIVATION_GELU, c->beta, true,
                          m[0], m[1], m[2], m[3], m[4], c->event))

static void ref_recompute(const layer_data *d)
{
    gelu_ref_forward(d->count, d[0].in, d[2].want, d[2].bound);
    gelu_ref_backward(d->count, d[0].in, d[1].in, d[3].want, d[3].bound);
    layer_set_sums(&d[4], d->rows, d[3].want, d[3].bound);
}

static const layer_case recompute = {"recompute",
    {{"h", LAYER_IN, layer_all, .low = -6, .high = 6}, {"dg", LAYER_IN, layer_all},
        {"g", LAYER_OUT, layer_all, .over = 1 << 0}, {"dh", LAYER_OUT, layer_all, .over = 1 << 1},
        {"db", LAYER_OUT | LAYER_SUM | LAYER_OPTIONAL, layer_row}},
    call_recompute, ref_recompute, NULL};

/* g and dh of the recomputing pass have the bits of the two passes that it replaces, and db those
 * of the linear layer's pass over dh. */
static void same_passes(void **state)
{
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols;
    clprune_context *context = test_context();
    const clprune_mat none = CLPRUNE_NO_MAT;
    test_mat h = test_mat_make(s->rows, s->cols, s->gap, test_new_uniform(24, -6, 6, count));
    test_mat dg = test_mat_make(s->rows, s->cols, s->gap + 2, test_new_normal(25, count));
    test_mat g[2], dh[2], db[2];
    for (size_t i = 0; i < 2; i++) {
        g[i] = test_mat_make(s->rows, s->cols, s->gap + i, NULL);
        dh[i] = test_mat_make(s->rows, s->cols, s->gap + 1 - i, NULL);
        db[i] = test_mat_make(1, s->cols, i, NULL);
    }
    TEST_OK(clprune__gelu_backward(context, CLPRUNE_ACTIVATION_GELU, 0, true, h.mat, dg.mat,
        g[0].mat, dh[0].mat, db[0].mat, NULL));
    TEST_OK(clprune_gelu_forward(context, h.mat, none, g[1].mat, NULL));
    TEST_OK(clprune_gelu_backward(context, 0, h.mat, dg.mat, dh[1].mat, db[1].mat, NULL));
    layer_same("g", &g[0], &g[1]);
    layer_same("dh", &dh[0], &dh[1]);
    layer_same_bias_gradient(&dh[1], &db[1]);
}

/* Runs both directions on `count` numbers, with dg = 1, and compares. */
static void compare(size_t count, const float *h, const char *what)
{
    const float *ones = layer_same_values(count, 1);
    const double *wide = layer_widen(count, h), *wide_ones = layer_widen(count, ones);
    double *want = test_doubles(count), *bound = test_doubles(count);
    test_mat in = test_mat_make(1, count, 0, h), gradient = test_mat_make(1, count, 0, ones);
    test_mat out = test_mat_make(1, count, 0, NULL);
    gelu_ref_forward(count, wide, want, bound);
    TEST_OK(clprune_gelu_forward(test_context(), in.mat, CLPRUNE_NO_MAT, out.mat, NULL));
    layer_check("g", &out, want, bound, what);
    gelu_ref_backward(count, wide, wide_ones, want, bound);
    TEST_OK(clprune_gelu_backward(
        test_context(), 0, in.mat, gradient.mat, out.mat, CLPRUNE_NO_MAT, NULL));
    layer_check("slope", &out, want, bound, what);
}

static void accuracy(NO_ROW)
{
    enum { COUNT = 65536 };
    static float h[COUNT];
    for (int i = 0; i < COUNT; i++)
        h[i] = -16.0f + 32.0f * (float)i / COUNT;
    compare(COUNT, h, "evenly from -16 to 16");
    for (int i = 0; i < COUNT; i++)
        h[i] = ldexpf(i % 2 == 0 ? 1.3f : -1.3f, -140 + i / 2 % 150);
    compare(COUNT, h, "powers of two");
}

static void special_values(NO_ROW)
{
    static const float h[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0f, -0.0f, 1e30f, -1e30f, 1e-45f,
        -1e-45f, 3.4e38f, -3.4e38f, 15.0f, -15.0f, 15.1f, -15.1f, 1.0f};
    enum { COUNT = COUNT_OF(h) };
    compare(COUNT, h, "special values");
    /* Each alone, as a last column, and with a NaN beside it that must not spread. */
    for (size_t i = 0; i < COUNT; i++) {
        const float pair[2] = {h[i], i % 2 == 0 ? NAN : 2.0f};
        compare(1, pair, "one special value");
        compare(2, pair, "a special value and its neighbour");
    }
}

/* The backward passes get h + b. */
static void slopes(NO_ROW)
{
    static const layer_shape shape = {60, 9, 0};
    const layer_steps steps = {1e-4, 1e-7, 1e-2, 1e-3, 1e-6};
    layer_case biased = forward;
    biased.operands[1].change = layer_zeros;
    layer_slopes_of(&biased, &backward, &shape, steps);
    layer_slopes_of(&biased, &recompute, &shape, steps);
}

int main(void)
{
    test_list list = {0};
    layer_add(&list, &forward);
    layer_add(&list, &backward);
    layer_add(&list, &recompute);
    layer_add_shapes(&list, same_passes, "same passes");
    test_add(&list, accuracy, NULL, "accuracy");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, slopes, NULL, "slopes");
    return test_run_on_devices("gelu", &list);
}
