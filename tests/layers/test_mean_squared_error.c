/* Mean squared error: values over samples x rows x columns, slopes, the accuracy of large samples,
 * parts of a batch, special values. */
#include "ref/mean_squared_error_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    size_t batch, rows, cols, gap;
} shape;

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

LAYER_CALL_OF(forward, shape,
    clprune_mean_squared_error_forward(c->context, s->batch, m[0], m[1], m[2], c->event))

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    mean_squared_error_ref_forward(
        s->batch, s->rows * s->cols, d[0].in, d[1].in, d[2].want, d[2].bound);
}

static const layer_case forward = {"forward",
    {{"y", LAYER_IN, size_all}, {"target", LAYER_IN, size_all},
        {"loss", LAYER_OUT, size_column, .change = fill_scale}},
    call_forward, ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_mean_squared_error_backward(c->context, s->batch, SCALE, m[0], m[1], m[3], c->event))

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    mean_squared_error_ref_backward(
        s->batch, s->rows * s->cols, (double)SCALE, d[0].in, d[1].in, d[3].want, d[3].bound);
}

static const layer_case backward = {"backward",
    {{"y", LAYER_IN, size_all}, {"target", LAYER_IN, size_all},
        {"dloss", LAYER_IN, size_column, .change = fill_scale},
        {"dy", LAYER_OUT, size_all, .over = 1 << 0}},
    call_backward, ref_backward, NULL};

static void slopes(NO_ROW)
{
    static const shape few = {3, 7, 18, 0};
    layer_slopes_of(&forward, &backward, &few, (layer_steps){1e-3, 1e-8, 1e-2, 1e-3, 1e-6});
}

/* The losses of a batch. */
static float *losses(size_t batch, size_t rows, size_t cols, const float *y, const float *target)
{
    const test_mat my = test_mat_make(batch * rows, cols, 1, y),
                   mtarget = test_mat_make(batch * rows, cols, 2, target),
                   loss = test_mat_make(batch, 1, 3, NULL);
    TEST_OK(clprune_mean_squared_error_forward(
        test_context(), batch, my.mat, mtarget.mat, loss.mat, NULL));
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

/* Of a matrix and itself: 0, and so is the gradient. */
static void same_matrix(NO_ROW)
{
    const float *x = test_new_normal(3, 4 * 9);
    const test_mat m = test_mat_make(4, 9, 0, x), loss = test_mat_make(2, 1, 0, NULL),
                   dy = test_mat_make(4, 9, 0, NULL);
    TEST_OK(clprune_mean_squared_error_forward(test_context(), 2, m.mat, m.mat, loss.mat, NULL));
    TEST_OK(clprune_mean_squared_error_backward(test_context(), 2, 1, m.mat, m.mat, dy.mat, NULL));
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
        TEST_FAILS(clprune_mean_squared_error_forward(
                       test_context(), bad[i], y.mat, target.mat, loss.mat, NULL),
            CLPRUNE_INVALID_SIZE, "multiple of the batch");
        TEST_FAILS(clprune_mean_squared_error_backward(
                       test_context(), bad[i], 1, y.mat, target.mat, dy.mat, NULL),
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
    for (size_t i = 0; !test_small() && i < COUNT_OF(large); i++)
        test_add(&list, large_samples, &large[i], "large samples %zu x %zu", large[i].rows,
            large[i].cols);
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, parts, NULL, "samples alone and in a batch");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, same_matrix, NULL, "y is the target");
    test_add(&list, batches, NULL, "bad batches");
    return test_run_on_devices("mean_squared_error", &list);
}
