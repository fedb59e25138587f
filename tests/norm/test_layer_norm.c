/* Layer normalisation: statistics, y and gradients of all shapes, with and without gamma and beta;
 * kept statistics give the bits of y; large means, equal elements, NaN, overflow; slopes. */
#include "ref/layer_norm_ref.h"
#include "support/test_layer.h"

#define NONE CLPRUNE_NO_MAT

static const float eps = 1e-5f;

LAYER_SIZE(size_stats, layer_shape, s->rows, 2, s->gap)

/* Rows of all kinds: as they are, with a mean of 1e4, of small deviations, all equal. */
static void mixed_rows(const void *shape, size_t count, float *values)
{
    const size_t cols = ((const layer_shape *)shape)->cols;
    for (size_t i = 0; i < count; i++)
        switch (i / cols % 5) {
        case 1:
            values[i] += 1e4f;
            break;
        case 2:
            values[i] *= 1e-3f;
            break;
        case 3:
            values[i] = 0.1f * (float)(1 + i / cols % 7);
            break;
        case 4:
            values[i] = values[i] * 3 - 8;
            break;
        default:
            break;
        }
}

/* Of rows that are about normal. */
static void likely_stats(const void *shape, size_t count, float *values)
{
    (void)shape;
    for (size_t i = 1; i < count; i += 2)
        values[i] = 0.5f + fabsf(values[i]);
}

/* ---- forward ---- */

LAYER_CALL(
    forward, clprune_layer_norm_forward(c->context, eps, m[0], m[1], m[2], m[3], m[4], c->event))

static void ref_forward(const layer_data *d)
{
    layer_norm_ref_stats(d->rows, d->cols, (double)eps, d[0].in, d[4].want, d[4].bound);
    layer_norm_ref_y(
        d->rows, d->cols, d[0].in, d[4].want, d[4].bound, d[1].in, d[2].in, d[3].want, d[3].bound);
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, layer_all, .change = mixed_rows},
        {"gamma", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f}, {"beta", LAYER_IN, layer_row},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0},
        {"stats", LAYER_OUT | LAYER_OPTIONAL, size_stats}},
    call_forward, ref_forward, NULL};

LAYER_CALL(
    plain, clprune_layer_norm_forward(c->context, eps, m[0], NONE, NONE, m[1], m[2], c->event))

static void ref_plain(const layer_data *d)
{
    layer_norm_ref_stats(d->rows, d->cols, (double)eps, d[0].in, d[2].want, d[2].bound);
    layer_norm_ref_y(
        d->rows, d->cols, d[0].in, d[2].want, d[2].bound, NULL, NULL, d[1].want, d[1].bound);
}

static const layer_case plain = {"forward without gamma",
    {{"x", LAYER_IN, layer_all, .change = mixed_rows}, {"y", LAYER_OUT, layer_all, .over = 1 << 0},
        {"stats", LAYER_OUT | LAYER_OPTIONAL, size_stats}},
    call_plain, ref_plain, NULL};

LAYER_CALL(apply, clprune_layer_norm_apply(c->context, m[0], m[1], m[2], m[3], m[4], c->event))

static void ref_apply(const layer_data *d)
{
    layer_norm_ref_y(
        d->rows, d->cols, d[0].in, d[1].in, NULL, d[2].in, d[3].in, d[4].want, d[4].bound);
}

static const layer_case apply = {"apply",
    {{"x", LAYER_IN, layer_all}, {"stats", LAYER_IN, size_stats, .change = likely_stats},
        {"gamma", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f}, {"beta", LAYER_IN, layer_row},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0}},
    call_apply, ref_apply, NULL};

/* From kept statistics y has the same bits. */
static void applied(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    float *values = test_new_normal(41, s->rows * s->cols);
    mixed_rows(s, s->rows * s->cols, values);
    test_mat x = test_mat_make(s->rows, s->cols, s->gap, values);
    test_mat gamma = test_mat_make(1, s->cols, 0, test_new_uniform(42, 0.5f, 1.5f, s->cols));
    test_mat beta = test_mat_make(1, s->cols, 1, test_new_normal(43, s->cols));
    test_mat y = test_mat_make(s->rows, s->cols, 0, NULL);
    test_mat again = test_mat_make(s->rows, s->cols, 2, NULL);
    test_mat stats = test_mat_make(s->rows, 2, 1, NULL);
    for (int way = 0; way < 2; way++) {
        const clprune_mat g = way == 0 ? gamma.mat : NONE, b = way == 0 ? beta.mat : NONE;
        TEST_OK(clprune_layer_norm_forward(context, eps, x.mat, g, b, y.mat, stats.mat, NULL));
        TEST_OK(clprune_layer_norm_apply(context, x.mat, stats.mat, g, b, again.mat, NULL));
        layer_same("y", &y, &again);
    }
}

/* ---- backward ---- */

LAYER_CALL(backward, clprune_layer_norm_backward(c->context, c->beta, 0, m[0], m[1], m[2], m[3],
                         m[4], &(clprune_layer_norm){.gamma = m[5], .beta = m[6]}, c->event))

static void ref_backward(const layer_data *d)
{
    double *products = test_doubles(d->count);
    layer_norm_ref_products(d->rows, d->cols, d[0].in, d[1].in, d[3].in, products);
    layer_norm_ref_dx(d->rows, d->cols, d[0].in, d[1].in, d[2].in, d[3].in, d[4].want, d[4].bound);
    double *bounds = test_doubles(d->count);
    for (size_t i = 0; i < d->count; i++)
        bounds[i] = test_bound(2, fabs(products[i]), 0);
    layer_set_sums(&d[5], d->rows, products, bounds);
    layer_set_sums(&d[6], d->rows, d[3].in, NULL);
}

#define BACKWARD_IN                                                                                \
    {"x", LAYER_IN, layer_all}, {"stats", LAYER_IN, size_stats, .change = likely_stats},           \
        {"gamma", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f},                                 \
    {                                                                                              \
        "dy", LAYER_IN, layer_all                                                                  \
    }

static const layer_case backward = {"backward",
    {BACKWARD_IN, {"dx", LAYER_OUT | LAYER_OPTIONAL, layer_all, .over = 1 << 3},
        {"dgamma", LAYER_OUT | LAYER_SUM, layer_row}, {"dbeta", LAYER_OUT | LAYER_SUM, layer_row}},
    call_backward, ref_backward, NULL};

LAYER_CALL(added, clprune_layer_norm_backward(c->context, c->beta, c->beta, m[0], m[1], m[2], m[3],
                      m[4], &(clprune_layer_norm){.gamma = m[5], .beta = m[6]}, c->event))

/* dx has its own factor, here the same. */
static const layer_case added = {"backward added to dx",
    {BACKWARD_IN, {"dx", LAYER_OUT | LAYER_SUM, layer_all},
        {"dgamma", LAYER_OUT | LAYER_SUM, layer_row}, {"dbeta", LAYER_OUT | LAYER_SUM, layer_row}},
    call_added, ref_backward, NULL};

LAYER_CALL(frozen, clprune_layer_norm_backward(
                       c->context, 0, c->beta, m[0], m[1], m[2], m[3], m[4], NULL, c->event))

static void ref_frozen(const layer_data *d)
{
    layer_norm_ref_dx(d->rows, d->cols, d[0].in, d[1].in, d[2].in, d[3].in, d[4].want, d[4].bound);
}

static const layer_case frozen = {"backward, frozen",
    {{"x", LAYER_IN, layer_all}, {"stats", LAYER_IN, size_stats, .change = likely_stats},
        {"gamma", LAYER_IN | LAYER_OPTIONAL, layer_row, .low = 0.5f, .high = 1.5f},
        {"dy", LAYER_IN, layer_all}, {"dx", LAYER_OUT | LAYER_SUM, layer_all}},
    call_frozen, ref_frozen, NULL};

LAYER_CALL(frozen_in_place,
    clprune_layer_norm_backward(c->context, 0, 0, m[0], m[1], NONE, m[2], m[3], NULL, c->event))

static void ref_frozen_in_place(const layer_data *d)
{
    layer_norm_ref_dx(d->rows, d->cols, d[0].in, d[1].in, NULL, d[2].in, d[3].want, d[3].bound);
}

static const layer_case frozen_in_place = {"backward, in place, without gamma",
    {{"x", LAYER_IN, layer_all}, {"stats", LAYER_IN, size_stats, .change = likely_stats},
        {"dy", LAYER_IN, layer_all}, {"dx", LAYER_OUT | LAYER_OPTIONAL, layer_all, .over = 1 << 2}},
    call_frozen_in_place, ref_frozen_in_place, NULL};

/* dx and the sums have different factors, and dx has the same bits with and without sums. */
static void factors(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    const size_t count = s->rows * s->cols;
    const float *old = test_new_normal(54, count), *old_sum = test_new_normal(55, s->cols);
    float *values = test_new_normal(51, 2 * s->rows);
    likely_stats(s, 2 * s->rows, values);
    test_mat x = test_mat_make(s->rows, s->cols, s->gap, test_new_normal(52, count));
    test_mat stats = test_mat_make(s->rows, 2, 1, values);
    test_mat gamma = test_mat_make(1, s->cols, 0, test_new_uniform(56, 0.5f, 1.5f, s->cols));
    test_mat dy = test_mat_make(s->rows, s->cols, 1, test_new_normal(53, count));
    test_mat dx = test_mat_make(s->rows, s->cols, 0, NULL);
    test_mat more = test_mat_make(s->rows, s->cols, 2, old);
    test_mat sum[2][2];
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++)
            sum[i][k] = test_mat_make(1, s->cols, k, i == 0 ? NULL : old_sum);
    const clprune_layer_norm once = {sum[0][0].mat, sum[0][1].mat},
                             twice = {sum[1][0].mat, sum[1][1].mat};
    TEST_OK(clprune_layer_norm_backward(
        context, 0, 0, x.mat, stats.mat, gamma.mat, dy.mat, dx.mat, NULL, NULL));
    TEST_OK(clprune_layer_norm_backward(
        context, 0, 0, x.mat, stats.mat, gamma.mat, dy.mat, NONE, &once, NULL));
    TEST_OK(clprune_layer_norm_backward(
        context, 0.5f, -2, x.mat, stats.mat, gamma.mat, dy.mat, more.mat, &twice, NULL));
    const float *first = test_mat_get(&dx, "dx"), *got = test_mat_get(&more, "dx, added");
    for (size_t i = 0; i < count; i++)
        assert_true(got[i] == fmaf(-2, old[i], first[i]));
    for (size_t k = 0; k < 2; k++) {
        const float *alone = test_mat_get(&sum[0][k], "sum"),
                    *both = test_mat_get(&sum[1][k], "sum, added");
        for (size_t c = 0; c < s->cols; c++)
            assert_true(both[c] == fmaf(0.5f, old_sum[c], alone[c]));
    }
    TEST_UNCHANGED(&x, &stats, &gamma, &dy);
}

/* Neither dx nor gradients: a call that does nothing, and completes. */
static void nothing(NO_ROW)
{
    const float values[6] = {1, 2, 3, 4, 5, 6};
    test_mat x = test_mat_make(2, 3, 0, values), dy = test_mat_make(2, 3, 0, values);
    test_mat stats = test_mat_make(2, 2, 0, values);
    TEST_EVENT(clprune_layer_norm_backward(
        test_context(), 0, 0, x.mat, stats.mat, NONE, dy.mat, NONE, NULL, &event));
    TEST_UNCHANGED(&x, &dy, &stats);
}

/* ---- special values ---- */

enum { SPECIAL_ROWS = 9 };

/* Rows with NaN and infinities are NaN, and leave other rows as they are. */
static void not_a_number(void **state)
{
    const size_t cols = *(const size_t *)*state;
    float *values = test_new_normal(61, SPECIAL_ROWS * cols);
    test_mat x = test_mat_make(SPECIAL_ROWS, cols, 1, values);
    test_mat y = test_mat_make(SPECIAL_ROWS, cols, 0, NULL);
    test_mat stats = test_mat_make(SPECIAL_ROWS, 2, 0, NULL);
    clprune_context *context = test_context();
    TEST_OK(clprune_layer_norm_forward(context, eps, x.mat, NONE, NONE, y.mat, stats.mat, NULL));
    const float *sound = test_mat_get(&y, "y"), *sound_stats = test_mat_get(&stats, "stats");
    values[1 * cols] = NAN;
    values[4 * cols + cols / 2] = INFINITY;
    values[7 * cols + cols - 1] = -INFINITY;
    test_mat_set(&x, values);
    TEST_OK(clprune_layer_norm_forward(context, eps, x.mat, NONE, NONE, y.mat, stats.mat, NULL));
    const float *got = test_mat_get(&y, "y"), *got_stats = test_mat_get(&stats, "stats");
    for (size_t r = 0; r < SPECIAL_ROWS; r++) {
        const bool bad = r % 3 == 1;
        assert_true(bad ? isnan(got_stats[2 * r + 1])
                        : got_stats[2 * r] == sound_stats[2 * r] &&
                              got_stats[2 * r + 1] == sound_stats[2 * r + 1]);
        for (size_t i = r * cols; i < (r + 1) * cols; i++)
            assert_true(bad ? isnan(got[i]) : got[i] == sound[i]);
    }
    /* A NaN of dy makes its row of dx NaN, and its column's sums. */
    float *slope = test_new_normal(62, SPECIAL_ROWS * cols);
    test_mat ones = test_mat_make(1, cols, 0, layer_same_values(cols, 1));
    test_mat_set(&x, test_new_normal(61, SPECIAL_ROWS * cols));
    TEST_OK(clprune_layer_norm_forward(context, eps, x.mat, NONE, NONE, y.mat, stats.mat, NULL));
    slope[4 * cols] = NAN;
    test_mat dy = test_mat_make(SPECIAL_ROWS, cols, 0, slope);
    test_mat dgamma = test_mat_make(1, cols, 0, NULL), dbeta = test_mat_make(1, cols, 0, NULL);
    TEST_OK(clprune_layer_norm_backward(context, 0, 0, x.mat, stats.mat, ones.mat, dy.mat, dy.mat,
        &(clprune_layer_norm){dgamma.mat, dbeta.mat}, NULL));
    const float *dx = test_mat_get(&dy, "dx"),
                *sums[2] = {test_mat_get(&dgamma, "dgamma"), test_mat_get(&dbeta, "dbeta")};
    for (size_t i = 0; i < SPECIAL_ROWS * cols; i++)
        assert_true(isnan(dx[i]) == (i / cols == 4));
    for (size_t c = 0; c < cols; c++)
        assert_true(isnan(sums[0][c]) == (c == 0) && isnan(sums[1][c]) == (c == 0));
}

/* Equal elements: the mean is exact, xhat is 0, inv is 1 / sqrt(eps), dx is finite. Of one feature
 * dx is 0. */
static void equal_elements(void **state)
{
    static const float some[SPECIAL_ROWS] = {
        0, 0.1f, -0.3f, 1e4f, -12345.678f, 1e-30f, 3.3e7f, 1e12f, -1e-45f};
    const size_t cols = *(const size_t *)*state;
    float *values = test_floats(SPECIAL_ROWS * cols);
    for (size_t i = 0; i < SPECIAL_ROWS * cols; i++)
        values[i] = some[i / cols];
    test_mat x = test_mat_make(SPECIAL_ROWS, cols, 0, values);
    test_mat beta = test_mat_make(1, cols, 0, test_new_normal(71, cols));
    test_mat gamma = test_mat_make(1, cols, 0, test_new_normal(72, cols));
    test_mat y = test_mat_make(SPECIAL_ROWS, cols, 0, NULL);
    test_mat dx = test_mat_make(SPECIAL_ROWS, cols, 0, NULL);
    test_mat stats = test_mat_make(SPECIAL_ROWS, 2, 0, NULL);
    clprune_context *context = test_context();
    TEST_OK(clprune_layer_norm_forward(
        context, eps, x.mat, gamma.mat, beta.mat, y.mat, stats.mat, NULL));
    const float *got = test_mat_get(&y, "y"), *kept = test_mat_get(&stats, "stats"),
                *want = test_mat_get(&beta, "beta");
    for (size_t r = 0; r < SPECIAL_ROWS; r++) {
        assert_true(kept[2 * r] == some[r]);
        if (fabsf(some[r]) < 1e5f) /* else the variance is not exactly 0 */
            assert_true(fabsf(kept[2 * r + 1] * sqrtf(eps) - 1) < 1e-6f);
        for (size_t c = 0; c < cols; c++)
            assert_true(got[r * cols + c] == want[c]);
    }
    TEST_OK(clprune_layer_norm_backward(
        context, 0, 0, x.mat, stats.mat, gamma.mat, y.mat, dx.mat, NULL, NULL));
    const float *slope = test_mat_get(&dx, "dx");
    for (size_t i = 0; i < SPECIAL_ROWS * cols; i++)
        assert_true(cols == 1 ? slope[i] == 0 : isfinite(slope[i]));
}

/* Squares that overflow make inv and xhat 0; a sum of a row that overflows makes the row NaN. */
static void overflow(NO_ROW)
{
    static const float values[4 * 3] = {
        1e20f, -1e20f, 0, 1e30f, -7e29f, 3e28f, 3e38f, 3e38f, -3e38f, 1, 2, 3};
    test_mat x = test_mat_make(4, 3, 0, values), y = test_mat_make(4, 3, 0, NULL),
             stats = test_mat_make(4, 2, 0, NULL);
    TEST_OK(
        clprune_layer_norm_forward(test_context(), eps, x.mat, NONE, NONE, y.mat, stats.mat, NULL));
    const float *got = test_mat_get(&y, "y"), *kept = test_mat_get(&stats, "stats");
    for (size_t i = 0; i < 4 * 3; i++)
        assert_true(i < 6 ? got[i] == 0 : i < 9 ? isnan(got[i]) : fabsf(got[i]) < 2);
    assert_true(kept[1] == 0 && kept[3] == 0 && isnan(kept[5]) && kept[7] > 1);
}

static void refusals(NO_ROW)
{
    static const float epsilons[] = {0, -1e-5f, -INFINITY, NAN};
    test_mat x = test_mat_make(2, 4, 0, test_new_normal(81, 8)), row = test_mat_make(1, 4, 0, NULL);
    test_mat y = test_mat_make(2, 4, 0, NULL), stats = test_mat_make(2, 2, 0, NULL);
    clprune_context *context = test_context();
    for (size_t i = 0; i < COUNT_OF(epsilons); i++)
        assert_int_equal(
            clprune_layer_norm_forward(context, epsilons[i], x.mat, NONE, NONE, y.mat, NONE, NULL),
            CLPRUNE_INVALID_ARGUMENT);
    /* Both gamma and beta, or neither; gradients need gamma. */
    assert_int_equal(
        clprune_layer_norm_forward(context, eps, x.mat, row.mat, NONE, y.mat, NONE, NULL),
        CLPRUNE_INVALID_SIZE);
    assert_int_equal(
        clprune_layer_norm_apply(context, x.mat, stats.mat, NONE, row.mat, y.mat, NULL),
        CLPRUNE_INVALID_SIZE);
    assert_int_equal(clprune_layer_norm_backward(context, 0, 0, x.mat, stats.mat, NONE, x.mat,
                         y.mat, &(clprune_layer_norm){row.mat, row.mat}, NULL),
        CLPRUNE_INVALID_SIZE);
}

static void slopes(NO_ROW)
{
    static const layer_shape shapes[] = {{9, 21, 0}, {5, 64, 0}};
    layer_case usual = forward;
    usual.operands[0].change = NULL;
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        layer_slopes_of(&usual, &backward, &shapes[i], (layer_steps){1e-4, 1e-7, 1e-2, 1e-3, 1e-5});
    layer_case alone = plain;
    alone.operands[0].change = NULL;
    layer_slopes_of(
        &alone, &frozen_in_place, &shapes[0], (layer_steps){1e-4, 1e-7, 1e-2, 1e-3, 1e-5});
}

int main(void)
{
    static const size_t widths[] = {1, 3, 16, 21, 384, 4096};
    static const layer_shape wide = {3, 4096, 1}, odd = {2, 4099, 0};
    static const layer_case *const cases[] = {
        &forward, &plain, &apply, &backward, &added, &frozen, &frozen_in_place};
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        layer_add(&list, cases[i]);
        layer_add_one(&list, cases[i], &wide, "3 x 4096 + 1");
        layer_add_one(&list, cases[i], &odd, "2 x 4099 + 0");
    }
    layer_add_shapes(&list, applied, "from kept statistics");
    layer_add_shapes(&list, factors, "factors");
    for (size_t i = 0; i < COUNT_OF(widths); i++) {
        test_add(&list, not_a_number, &widths[i], "NaN, %zu features", widths[i]);
        test_add(&list, equal_elements, &widths[i], "equal elements, %zu features", widths[i]);
    }
    test_add(&list, nothing, NULL, "nothing to do");
    test_add(&list, overflow, NULL, "overflow");
    test_add(&list, refusals, NULL, "refusals");
    test_add(&list, slopes, NULL, "slopes");
    return test_run_on_devices("layer_norm", &list);
}
