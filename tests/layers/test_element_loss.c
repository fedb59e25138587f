/* Losses of elements: values over samples x rows x columns, slopes, the accuracy of large samples,
 * parts of a batch, special values. */
#include "ref/element_loss_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    size_t batch, rows, cols, gap;
    clprune_element_loss loss;
} shape;

static const clprune_element_loss squared = {CLPRUNE_LOSS_SQUARED, 0};
static const clprune_element_loss others[] = {{CLPRUNE_LOSS_SMOOTH_L1, 1},
    {CLPRUNE_LOSS_SMOOTH_L1, 0}, {CLPRUNE_LOSS_SMOOTH_L1, 0.125f}, {CLPRUNE_LOSS_BINARY, 0}};

/* Around the parts into which samples are divided: 1024 columns, and rows of 64 vectors. */
static const shape shapes[] = {{1, 1, 1, 0}, {3, 1, 16, 0}, {5, 7, 15, 1}, {2, 9, 17, 0},
    {2, 1, 1023, 0}, {2, 3, 1024, 0}, {2, 3, 1025, 1}, {4, 1, 1040, 0}, {2, 130, 3, 2},
    {1, 65, 16, 0}, {3, 64, 16, 0}, {2, 10, 100, 0}, {2, 5, 2100, 7}, {100, 1, 10, 0},
    {1500, 1, 1, 0}, {1, 70, 513, 0}, {7, 200, 20, 0}, {2, 1, 33000, 0}, {0, 5, 8, 0}, {3, 0, 5, 0},
    {3, 5, 0, 1}, {0, 0, 0, 0}};

LAYER_SIZE(size_all, shape, s->batch * s->rows, s->cols, s->gap)
LAYER_SIZE(size_column, shape, s->batch, 1, s->gap)

/* The scale of the gradient is one number; for slopes it is that of each sample's loss. */
#define SCALE 0.75f

static void fill_scale(const void *of, size_t count, float *values)
{
    (void)of;
    for (size_t i = 0; i < count; i++)
        values[i] = SCALE;
}

/* Targets of logits are probabilities. */
static void fill_target(const void *of, size_t count, float *values)
{
    const shape *s = of;
    for (size_t i = 0; i < count && s->loss.kind == CLPRUNE_LOSS_BINARY; i++)
        values[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 1 / (1 + values[i] * values[i]);
}

LAYER_CALL_OF(forward, shape,
    clprune_element_loss_forward(c->context, &s->loss, s->batch, m[0], m[1], m[2], c->event))

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    element_loss_ref_forward(
        &s->loss, s->batch, s->rows * s->cols, d[0].in, d[1].in, d[2].want, d[2].bound);
}

static const layer_case forward = {"forward",
    {{"y", LAYER_IN, size_all}, {"target", LAYER_IN, size_all, .change = fill_target},
        {"loss", LAYER_OUT, size_column, .change = fill_scale}},
    call_forward, ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_element_loss_backward(
        c->context, &s->loss, s->batch, SCALE, m[0], m[1], m[3], c->event))

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    element_loss_ref_backward(&s->loss, s->batch, s->rows * s->cols, (double)SCALE, d[0].in,
        d[1].in, d[3].want, d[3].bound);
}

static const layer_case backward = {"backward",
    {{"y", LAYER_IN, size_all}, {"target", LAYER_IN, size_all, .change = fill_target},
        {"dloss", LAYER_IN, size_column, .change = fill_scale},
        {"dy", LAYER_OUT, size_all, .over = 1 << 0}},
    call_backward, ref_backward, NULL};

static void slopes(NO_ROW)
{
    const shape few[] = {
        {3, 7, 18, 0, squared}, {3, 7, 18, 0, others[0]}, {3, 7, 18, 0, others[3]}};
    for (size_t i = 0; i < COUNT_OF(few); i++)
        layer_slopes_of(&forward, &backward, &few[i], (layer_steps){1e-3, 1e-8, 1e-2, 1e-3, 1e-6});
}

/* The losses of a batch. */
static float *losses(size_t batch, size_t rows, size_t cols, const float *y, const float *target)
{
    const test_mat my = test_mat_make(batch * rows, cols, 1, y),
                   mtarget = test_mat_make(batch * rows, cols, 2, target),
                   loss = test_mat_make(batch, 1, 3, NULL);
    TEST_OK(clprune_element_loss_forward(
        test_context(), &squared, batch, my.mat, mtarget.mat, loss.mat, NULL));
    return test_mat_get(&loss, "loss");
}

/* Many equal terms, whose sum in one pass would round each time in the same direction. */
static void large_samples(void **state)
{
    const shape *s = *state;
    const size_t count = s->batch * s->rows * s->cols;
    static const float differences[] = {0.1f, 0.7f, 1.1f, 3.3e3f};
    for (size_t k = 0; k < COUNT_OF(differences); k++) {
        const size_t mark = test_mark();
        const float *got = losses(s->batch, s->rows, s->cols,
            layer_same_values(count, differences[k]), test_floats(count));
        const double want = (double)differences[k] * (double)differences[k];
        for (size_t n = 0; n < s->batch; n++)
            if (!(fabs((double)got[n] - want) <= 32 * 0x1p-24 * want))
                fail_msg("the mean of %zu times %g is off by %.3g * 2^-24", s->rows * s->cols, want,
                    fabs((double)got[n] - want) / want * 0x1p24);
        test_release(mark);
    }
}

/* A sample has the same bits alone as in a batch. */
static void parts(NO_ROW)
{
    static const shape some[] = {{5, 1, 10, 0}, {4, 70, 33, 0}, {3, 2, 3000, 0}};
    for (size_t k = 0; k < COUNT_OF(some); k++) {
        const shape *s = &some[k];
        const size_t each = s->rows * s->cols;
        const float *y = test_new_normal(1, s->batch * each),
                    *target = test_new_normal(2, s->batch * each);
        const float *whole = losses(s->batch, s->rows, s->cols, y, target);
        for (size_t n = 0; n < s->batch; n++)
            test_same_floats("loss", 1, 1,
                losses(1, s->rows, s->cols, y + n * each, target + n * each), whole + n,
                "sample %zu of %zu x %zu", n, s->rows, s->cols);
    }
}

/* They stay in their sample. */
static void special_values(NO_ROW)
{
    enum { BATCH = 6, ROWS = 3, COLS = 700, EACH = ROWS * COLS };
    float *y = layer_same_values((size_t)BATCH * EACH, 2),
          *target = layer_same_values((size_t)BATCH * EACH, 0.5f);
    y[1 * EACH + 5] = NAN;
    target[2 * EACH + EACH - 1] = NAN;
    y[3 * EACH] = -INFINITY;
    y[4 * EACH + 800] = target[4 * EACH + 800] = INFINITY;
    y[5 * EACH + 3] = 1e20f; /* its square is not finite */
    const float *loss = losses(BATCH, ROWS, COLS, y, target);
    assert_true(loss[0] == 2.25f && isnan(loss[1]) && isnan(loss[2]));
    assert_true(loss[3] == INFINITY && isnan(loss[4]) && loss[5] == INFINITY);
}

/* Differences and logits whose losses and slopes have no bound; NaN stays NaN. */
static void ends(NO_ROW)
{
    enum { COUNT = 7 };
    static const float y[COUNT] = {0, 1e20f, -1e20f, INFINITY, -INFINITY, NAN, 88},
                       slopes_of[2][COUNT] = {{0, 1, -1, 1, -1, NAN, 1},
                           {0.5f, 1, 0, 1, 0, NAN, 1}},
                       losses_of[2][COUNT] = {{0, 1e20f, 1e20f, INFINITY, INFINITY, NAN, 88},
                           {0.693147181f, 1e20f, 0, NAN, NAN, NAN, 88}};
    const test_mat my = test_mat_make(COUNT, 1, 0, y),
                   zero = test_mat_make(COUNT, 1, 0, test_floats(COUNT));
    for (size_t k = 0; k < 2; k++) {
        const test_mat loss = test_mat_make(COUNT, 1, 0, NULL),
                       dy = test_mat_make(COUNT, 1, 0, NULL);
        const clprune_element_loss *desc = &others[k == 0 ? 1 : 3];
        TEST_OK(clprune_element_loss_forward(
            test_context(), desc, COUNT, my.mat, zero.mat, loss.mat, NULL));
        TEST_OK(clprune_element_loss_backward(
            test_context(), desc, COUNT, 1, my.mat, zero.mat, dy.mat, NULL));
        const float *f = test_mat_get(&loss, "loss"), *slope = test_mat_get(&dy, "dy");
        for (size_t i = 0; i < COUNT; i++) {
            const float want[2] = {losses_of[k][i], slopes_of[k][i]}, got[2] = {f[i], slope[i]};
            for (int part = 0; part < 2; part++)
                if (!(isnan(want[part])
                            ? isnan(got[part])
                            : got[part] == want[part] ||
                                  fabsf(got[part] - want[part]) <= 1e-6f * fabsf(want[part])))
                    fail_msg("list %zu, y %g: %s is %g, expected %g", k, (double)y[i],
                        part == 0 ? "the loss" : "its slope", (double)got[part],
                        (double)want[part]);
        }
    }
}

static void descs(NO_ROW)
{
    static const struct {
        clprune_element_loss desc;
        const char *text;
    } bad[] = {{{(clprune_element_loss_kind)3, 0}, "kind is 3"},
        {{(clprune_element_loss_kind)-1, 0}, "kind is -1"},
        {{CLPRUNE_LOSS_SMOOTH_L1, -1}, "beta is -1"}, {{CLPRUNE_LOSS_SMOOTH_L1, NAN}, "beta is"},
        {{CLPRUNE_LOSS_SMOOTH_L1, INFINITY}, "beta is inf"},
        {{CLPRUNE_LOSS_SQUARED, 1}, "beta is 1"}, {{CLPRUNE_LOSS_BINARY, 1}, "beta is 1"}};
    const test_mat y = test_mat_make(2, 5, 0, test_new_normal(4, 10)),
                   loss = test_mat_make(2, 1, 0, NULL), dy = test_mat_make(2, 5, 0, NULL);
    for (size_t i = 0; i <= COUNT_OF(bad); i++) {
        const clprune_element_loss *desc = i < COUNT_OF(bad) ? &bad[i].desc : NULL;
        const char *text = desc != NULL ? bad[i].text : "desc is NULL";
        TEST_FAILS(
            clprune_element_loss_forward(test_context(), desc, 2, y.mat, y.mat, loss.mat, NULL),
            CLPRUNE_INVALID_ARGUMENT, text);
        TEST_FAILS(
            clprune_element_loss_backward(test_context(), desc, 2, 1, y.mat, y.mat, dy.mat, NULL),
            CLPRUNE_INVALID_ARGUMENT, text);
    }
    TEST_UNCHANGED(&y, &loss, &dy);
}

/* Of a matrix and itself: 0, and so is the gradient. */
static void same_matrix(NO_ROW)
{
    const float *x = test_new_normal(3, 4 * 9);
    const test_mat m = test_mat_make(4, 9, 0, x), loss = test_mat_make(2, 1, 0, NULL),
                   dy = test_mat_make(4, 9, 0, NULL);
    TEST_OK(
        clprune_element_loss_forward(test_context(), &squared, 2, m.mat, m.mat, loss.mat, NULL));
    TEST_OK(
        clprune_element_loss_backward(test_context(), &squared, 2, 1, m.mat, m.mat, dy.mat, NULL));
    const float *got = test_mat_get(&loss, "loss"), *gradient = test_mat_get(&dy, "dy");
    assert_true(got[0] == 0 && got[1] == 0);
    for (size_t i = 0; i < (size_t)4 * 9; i++)
        assert_true(gradient[i] == 0);
}

static void batches(NO_ROW)
{
    static const size_t bad[] = {0, 5, 24, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const test_mat y = test_mat_make(12, 5, 0, test_new_normal(4, 60)),
                       target = test_mat_make(12, 5, 0, test_new_normal(5, 60)),
                       loss = test_mat_make(12, 1, 0, NULL), dy = test_mat_make(12, 5, 0, NULL);
        TEST_FAILS(clprune_element_loss_forward(
                       test_context(), &squared, bad[i], y.mat, target.mat, loss.mat, NULL),
            CLPRUNE_INVALID_SIZE, "multiple of the batch");
        TEST_FAILS(clprune_element_loss_backward(
                       test_context(), &squared, bad[i], 1, y.mat, target.mat, dy.mat, NULL),
            CLPRUNE_INVALID_SIZE, "multiple of the batch");
        TEST_UNCHANGED(&y, &target, &loss, &dy);
    }
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward};
    static const shape large[] = {
        {2, 1, 200001, 0}, {2, 200001, 1, 0}, {1, 447, 449, 0}, {1, 3000000, 1, 0}};
    test_list list = {0};
    for (size_t i = 0; i < 2 * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / 2];
        layer_add_one(
            &list, cases[i % 2], s, "%zu x %zu x %zu + %zu", s->batch, s->rows, s->cols, s->gap);
    }
    static shape few[COUNT_OF(others) * 5];
    for (size_t i = 0; i < 2 * COUNT_OF(few); i++) {
        shape *s = &few[i / 2];
        *s = shapes[3 * (i / 2 % 5) + 1];
        s->loss = others[i / 10];
        layer_add_one(&list, cases[i % 2], s, "kind %d, beta %g, %zu x %zu x %zu",
            (int)s->loss.kind, (double)s->loss.beta, s->batch, s->rows, s->cols);
    }
    for (size_t i = 0; !test_small() && i < COUNT_OF(large); i++)
        test_add(&list, large_samples, &large[i], "large samples %zu x %zu", large[i].rows,
            large[i].cols);
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, parts, NULL, "samples alone and in a batch");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, same_matrix, NULL, "y is the target");
    test_add(&list, batches, NULL, "bad batches");
    test_add(&list, ends, NULL, "ends");
    test_add(&list, descs, NULL, "bad descs");
    return test_run_on_devices("element_loss", &list);
}
