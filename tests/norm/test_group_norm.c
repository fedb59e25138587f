/* Group normalisation: statistics, y and gradients of samples of all shapes, with and without gamma
 * and beta, beside layer norms of each sample's groups in double precision; kept statistics give
 * the bits of y; NaN stays in its group; one group of one row is a layer norm; slopes. */
#include "clprune/group_norm.h"

#include "clprune/layer_norm.h"
#include "ref/layer_norm_ref.h"
#include "support/test_layer.h"

#define NONE CLPRUNE_NO_MAT

static const float eps = 1e-5f;

typedef struct group_shape {
    layer_shape of;
    size_t batch, groups;
} group_shape;

static const group_shape shapes[] = {{{1, 1, 0}, 1, 1}, {{6, 4, 1}, 2, 2}, {{21, 6, 0}, 3, 3},
    {{30, 48, 5}, 2, 3}, {{98, 64, 0}, 2, 32}, {{98, 64, 2}, 2, 1}, {{98, 24, 0}, 2, 24},
    {{1500, 20, 0}, 3, 5}, {{7, 2100, 7}, 7, 3}, {{2, 4099, 0}, 1, 1}, {{400, 37, 0}, 4, 37},
    {{9, 130, 1}, 1, 10}, {{0, 8, 0}, 0, 2}};

LAYER_SIZE(size_stats, group_shape, s->batch, 2 * s->groups, s->of.gap)

/* Samples of all kinds: as they are, with a mean of 1e4, of small deviations, all equal. */
static void mixed_samples(const void *shape, size_t count, float *values)
{
    const group_shape *s = shape;
    const size_t sample = s->batch > 0 ? s->of.rows / s->batch * s->of.cols : 1;
    for (size_t i = 0; i < count; i++) {
        const size_t kind = (i / sample + s->batch) % 4;
        values[i] = kind == 1   ? values[i] + 1e4f
                    : kind == 2 ? values[i] * 1e-3f
                    : kind == 3 ? 0.3f
                                : values[i];
    }
}

static void likely_stats(const void *shape, size_t count, float *values)
{
    (void)shape;
    for (size_t i = 1; i < count; i += 2)
        values[i] = 0.5f + fabsf(values[i]);
}

/* ---- the reference: each group of a sample is a row of a layer norm ---- */

typedef struct groups {
    const group_shape *s;
    size_t rows, width, count; /* of a sample, of a group; elements of both */
} groups;

static groups groups_of(const void *shape)
{
    const group_shape *s = shape;
    const size_t rows = s->batch > 0 ? s->of.rows / s->batch : 0, width = s->of.cols / s->groups;
    return (groups){s, rows, width, rows * width};
}

/* Element i of group k of sample n, in a matrix; in a row of factors. */
static size_t place(const groups *g, size_t n, size_t k, size_t i)
{
    return (n * g->rows + i / g->width) * g->s->of.cols + k * g->width + i % g->width;
}
static size_t column(const groups *g, size_t k, size_t i)
{
    return k * g->width + i % g->width;
}

static double *group_of(const groups *g, size_t n, size_t k, const double *x)
{
    double *own = test_doubles(g->count);
    for (size_t i = 0; i < g->count; i++)
        own[i] = x[place(g, n, k, i)];
    return own;
}

static double *factors_of(const groups *g, size_t k, const double *factors)
{
    double *own = test_doubles(g->count);
    for (size_t i = 0; i < g->count; i++)
        own[i] = factors[column(g, k, i)];
    return factors == NULL ? NULL : own;
}

static void ref_stats(const layer_data *x, const layer_data *stats)
{
    const groups g = groups_of(x->shape);
    for (size_t n = 0; n < g.s->batch && g.count > 0; n++)
        for (size_t k = 0; k < g.s->groups; k++) {
            const size_t at = 2 * (n * g.s->groups + k);
            layer_norm_ref_stats(1, g.count, (double)eps, group_of(&g, n, k, x->in),
                stats->want + at, stats->bound + at);
        }
}

static void ref_y(const layer_data *x, const double *stats, const double *bound,
    const double *gamma, const double *beta, const layer_data *y)
{
    const groups g = groups_of(x->shape);
    double *want = test_doubles(g.count), *near = test_doubles(g.count);
    for (size_t n = 0; n < g.s->batch; n++)
        for (size_t k = 0; k < g.s->groups; k++) {
            const size_t at = 2 * (n * g.s->groups + k);
            layer_norm_ref_y(1, g.count, group_of(&g, n, k, x->in), stats + at,
                bound == NULL ? NULL : bound + at, gamma == NULL ? NULL : factors_of(&g, k, gamma),
                beta == NULL ? NULL : factors_of(&g, k, beta), want, near);
            for (size_t i = 0; i < g.count; i++) {
                y->want[place(&g, n, k, i)] = want[i];
                y->bound[place(&g, n, k, i)] = near[i];
            }
        }
}

static void ref_dx(const layer_data *x, const double *stats, const double *gamma, const double *dy,
    const layer_data *dx)
{
    const groups g = groups_of(x->shape);
    double *want = test_doubles(g.count), *near = test_doubles(g.count);
    for (size_t n = 0; n < g.s->batch; n++)
        for (size_t k = 0; k < g.s->groups; k++) {
            layer_norm_ref_dx(1, g.count, group_of(&g, n, k, x->in),
                stats + 2 * (n * g.s->groups + k), gamma == NULL ? NULL : factors_of(&g, k, gamma),
                group_of(&g, n, k, dy), want, near);
            for (size_t i = 0; i < g.count; i++) {
                dx->want[place(&g, n, k, i)] = want[i];
                dx->bound[place(&g, n, k, i)] = near[i];
            }
        }
}

/* dgamma and dbeta. */
static void ref_sums(const layer_data *x, const double *stats, const double *dy,
    const layer_data *dgamma, const layer_data *dbeta)
{
    const groups g = groups_of(x->shape);
    double *products = test_doubles(x->count), *bounds = test_doubles(x->count);
    for (size_t n = 0; n < g.s->batch; n++)
        for (size_t k = 0; k < g.s->groups; k++)
            for (size_t i = 0; i < g.count; i++) {
                const size_t at = place(&g, n, k, i), of = 2 * (n * g.s->groups + k);
                products[at] = dy[at] * (x->in[at] - stats[of]) * stats[of + 1];
                bounds[at] = test_bound(2, fabs(products[at]), 0);
            }
    layer_set_sums(dgamma, x->rows, products, bounds);
    layer_set_sums(dbeta, x->rows, dy, NULL);
}

/* ---- forward ---- */

LAYER_CALL_OF(forward, group_shape,
    clprune_group_norm_forward(
        c->context, s->batch, s->groups, eps, m[0], m[1], m[2], m[3], m[4], c->event))

static void ref_forward(const layer_data *d)
{
    ref_stats(&d[0], &d[4]);
    ref_y(&d[0], d[4].want, d[4].bound, d[1].in, d[2].in, &d[3]);
}

#define GAMMA                                                                                      \
    {                                                                                              \
        "gamma", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f                                    \
    }
#define STATS                                                                                      \
    {                                                                                              \
        "stats", LAYER_IN, size_stats, .change = likely_stats                                      \
    }

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, layer_all, .change = mixed_samples}, GAMMA, {"beta", LAYER_IN, layer_row},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0},
        {"stats", LAYER_OUT | LAYER_OPTIONAL, size_stats}},
    call_forward, ref_forward, NULL};

LAYER_CALL_OF(plain, group_shape,
    clprune_group_norm_forward(
        c->context, s->batch, s->groups, eps, m[0], NONE, NONE, m[1], m[2], c->event))

static void ref_plain(const layer_data *d)
{
    ref_stats(&d[0], &d[2]);
    ref_y(&d[0], d[2].want, d[2].bound, NULL, NULL, &d[1]);
}

static const layer_case plain = {"forward without gamma",
    {{"x", LAYER_IN, layer_all, .change = mixed_samples},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0},
        {"stats", LAYER_OUT | LAYER_OPTIONAL, size_stats}},
    call_plain, ref_plain, NULL};

LAYER_CALL_OF(apply, group_shape,
    clprune_group_norm_apply(
        c->context, s->batch, s->groups, m[0], m[1], m[2], m[3], m[4], c->event))

static void ref_apply(const layer_data *d)
{
    ref_y(&d[0], d[1].in, NULL, d[2].in, d[3].in, &d[4]);
}

static const layer_case apply = {"apply",
    {{"x", LAYER_IN, layer_all}, STATS, GAMMA, {"beta", LAYER_IN, layer_row},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0}},
    call_apply, ref_apply, NULL};

/* ---- backward ---- */

LAYER_CALL_OF(backward, group_shape,
    clprune_group_norm_backward(c->context, s->batch, s->groups, c->beta, 0, m[0], m[1], m[2], m[3],
        m[4], &(clprune_group_norm){.gamma = m[5], .beta = m[6]}, c->event))

static void ref_backward(const layer_data *d)
{
    ref_dx(&d[0], d[1].in, d[2].in, d[3].in, &d[4]);
    ref_sums(&d[0], d[1].in, d[3].in, &d[5], &d[6]);
}

#define SUMS_OUT                                                                                   \
    {"dgamma", LAYER_OUT | LAYER_SUM, layer_row},                                                  \
    {                                                                                              \
        "dbeta", LAYER_OUT | LAYER_SUM, layer_row                                                  \
    }

static const layer_case backward = {"backward",
    {{"x", LAYER_IN, layer_all}, STATS, GAMMA, {"dy", LAYER_IN, layer_all},
        {"dx", LAYER_OUT | LAYER_OPTIONAL, layer_all, .over = 1 << 3}, SUMS_OUT},
    call_backward, ref_backward, NULL};

LAYER_CALL_OF(added, group_shape,
    clprune_group_norm_backward(c->context, s->batch, s->groups, c->beta, c->beta, m[0], m[1], m[2],
        m[3], m[4], &(clprune_group_norm){.gamma = m[5], .beta = m[6]}, c->event))

/* dx has its own factor, here the same. */
static const layer_case added = {"backward added to dx",
    {{"x", LAYER_IN, layer_all}, STATS, GAMMA, {"dy", LAYER_IN, layer_all},
        {"dx", LAYER_OUT | LAYER_SUM, layer_all}, SUMS_OUT},
    call_added, ref_backward, NULL};

LAYER_CALL_OF(frozen, group_shape,
    clprune_group_norm_backward(
        c->context, s->batch, s->groups, 0, 0, m[0], m[1], NONE, m[2], m[3], NULL, c->event))

static void ref_frozen(const layer_data *d)
{
    ref_dx(&d[0], d[1].in, NULL, d[2].in, &d[3]);
}

static const layer_case frozen = {"backward, frozen, without gamma",
    {{"x", LAYER_IN, layer_all}, STATS, {"dy", LAYER_IN, layer_all},
        {"dx", LAYER_OUT | LAYER_OPTIONAL, layer_all, .over = 1 << 2}},
    call_frozen, ref_frozen, NULL};

/* ---- special cases ---- */

/* From kept statistics y has the same bits, with gamma and without. */
static void applied(void **state)
{
    const group_shape *s = *state;
    clprune_context *context = test_context();
    float *values = test_new_normal(41, s->of.rows * s->of.cols);
    mixed_samples(s, s->of.rows * s->of.cols, values);
    test_mat x = test_mat_make(s->of.rows, s->of.cols, s->of.gap, values);
    test_mat gamma = test_mat_make(1, s->of.cols, 0, test_new_normal(42, s->of.cols));
    test_mat beta = test_mat_make(1, s->of.cols, 1, test_new_normal(43, s->of.cols));
    test_mat y = test_mat_make(s->of.rows, s->of.cols, 0, NULL);
    test_mat again = test_mat_make(s->of.rows, s->of.cols, 2, NULL);
    test_mat stats = test_mat_make(s->batch, 2 * s->groups, 1, NULL);
    for (int way = 0; way < 2; way++) {
        const clprune_mat g = way == 0 ? gamma.mat : NONE, b = way == 0 ? beta.mat : NONE;
        TEST_OK(clprune_group_norm_forward(
            context, s->batch, s->groups, eps, x.mat, g, b, y.mat, stats.mat, NULL));
        TEST_OK(clprune_group_norm_apply(
            context, s->batch, s->groups, x.mat, stats.mat, g, b, again.mat, NULL));
        layer_same("y", &y, &again);
    }
}

/* A NaN makes its group of its sample NaN; a group of equal elements is beta, or 0. */
static void special_groups(NO_ROW)
{
    enum { BATCH = 3, ROWS = 5, COLS = 40, GROUPS = 4, WIDTH = COLS / GROUPS };
    float *values = test_new_normal(61, BATCH * ROWS * COLS);
    values[(1 * ROWS + 4) * COLS + 2 * WIDTH] = NAN;
    values[(2 * ROWS + 0) * COLS + 1 * WIDTH + 9] = INFINITY;
    for (size_t r = 0; r < ROWS; r++) /* the first sample's last group */
        for (size_t c = 3 * WIDTH; c < COLS; c++)
            values[r * COLS + c] = 1234.567f;
    test_mat x = test_mat_make(BATCH * ROWS, COLS, 0, values);
    test_mat y = test_mat_make(BATCH * ROWS, COLS, 0, NULL);
    test_mat stats = test_mat_make(BATCH, 2 * GROUPS, 0, NULL);
    TEST_OK(clprune_group_norm_forward(
        test_context(), BATCH, GROUPS, eps, x.mat, NONE, NONE, y.mat, stats.mat, NULL));
    const float *got = test_mat_get(&y, "y");
    for (size_t i = 0; i < BATCH * ROWS * COLS; i++) {
        const size_t n = i / COLS / ROWS, k = i % COLS / WIDTH;
        const bool bad = (n == 1 && k == 2) || (n == 2 && k == 1);
        assert_int_equal(isnan(got[i]) != 0, bad);
        assert_true(n != 0 || k != 3 || got[i] == 0);
    }
}

/* Samples of one row and one group: a layer norm, up to the order of its sums. */
static void like_layer_norm(NO_ROW)
{
    enum { ROWS = 17, COLS = 96 };
    clprune_context *context = test_context();
    test_mat x = test_mat_make(ROWS, COLS, 1, test_new_normal(71, ROWS * COLS));
    test_mat y = test_mat_make(ROWS, COLS, 0, NULL), other = test_mat_make(ROWS, COLS, 0, NULL);
    test_mat stats = test_mat_make(ROWS, 2, 0, NULL);
    TEST_OK(clprune_group_norm_forward(
        context, ROWS, 1, eps, x.mat, NONE, NONE, y.mat, stats.mat, NULL));
    TEST_OK(clprune_layer_norm_forward(context, eps, x.mat, NONE, NONE, other.mat, NONE, NULL));
    const float *a = test_mat_get(&y, "y"), *b = test_mat_get(&other, "y of a layer norm");
    for (size_t i = 0; i < ROWS * COLS; i++)
        assert_true(fabsf(a[i] - b[i]) <= 2e-6f * (1 + fabsf(b[i])));
}

static void refusals(NO_ROW)
{
    clprune_context *context = test_context();
    test_mat x = test_mat_make(6, 8, 0, test_new_normal(81, 48));
    test_mat y = test_mat_make(6, 8, 0, NULL), stats = test_mat_make(3, 4, 0, NULL);
#define FORWARD(batch, groups, eps)                                                                \
    clprune_group_norm_forward(                                                                    \
        context, batch, groups, eps, x.mat, NONE, NONE, y.mat, stats.mat, NULL)
    TEST_FAILS(FORWARD(3, 2, 0), CLPRUNE_INVALID_ARGUMENT, "eps is 0, expected above 0");
    TEST_FAILS(FORWARD(3, 2, NAN), CLPRUNE_INVALID_ARGUMENT, "eps is");
    TEST_FAILS(FORWARD(3, 0, eps), CLPRUNE_INVALID_SIZE,
        "x has 8 columns, expected a multiple of groups, 0");
    TEST_FAILS(FORWARD(3, 3, eps), CLPRUNE_INVALID_SIZE,
        "x has 8 columns, expected a multiple of groups, 3");
    TEST_FAILS(
        FORWARD(4, 2, eps), CLPRUNE_INVALID_SIZE, "x has 6 rows, expected a multiple of batch, 4");
    TEST_FAILS(
        FORWARD(0, 2, eps), CLPRUNE_INVALID_SIZE, "x has 6 rows, expected a multiple of batch, 0");
    TEST_FAILS(FORWARD(2, 2, eps), CLPRUNE_INVALID_SIZE, "stats is");
    TEST_OK(FORWARD(3, 2, eps));
    TEST_EVENT(clprune_group_norm_backward(context, 3, 2, 0, 0, x.mat, stats.mat, NONE, y.mat, NONE,
        NULL, &event)); /* nothing to do */
}

static void slopes(NO_ROW)
{
    static const group_shape small[] = {{{12, 6, 1}, 2, 3}, {{10, 20, 0}, 1, 2}};
    layer_case alone = plain;
    alone.operands[0].change = NULL;
    for (size_t i = 0; i < COUNT_OF(small); i++) {
        layer_case whole = forward;
        whole.operands[0].change = NULL;
        layer_slopes_of(&whole, &backward, &small[i], (layer_steps){1e-4, 1e-7, 1e-2, 1e-3, 1e-5});
        layer_slopes_of(&alone, &frozen, &small[i], (layer_steps){1e-4, 1e-7, 1e-2, 1e-3, 1e-5});
    }
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &plain, &apply, &backward, &added, &frozen};
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (size_t k = 0; k < COUNT_OF(shapes); k++)
            if (layer_is_wanted(&shapes[k].of))
                layer_add_one(&list, cases[i], &shapes[k], "%zu x %zu, batch %zu, %zu groups",
                    shapes[k].of.rows, shapes[k].of.cols, shapes[k].batch, shapes[k].groups);
    for (size_t k = 0; k < COUNT_OF(shapes); k++)
        if (shapes[k].of.rows > 0)
            test_add(&list, applied, &shapes[k], "from kept statistics, %zu x %zu, %zu groups",
                shapes[k].of.rows, shapes[k].of.cols, shapes[k].groups);
    test_add(&list, special_groups, NULL, "NaN and equal elements");
    test_add(&list, like_layer_norm, NULL, "like a layer norm");
    test_add(&list, refusals, NULL, "refusals");
    test_add(&list, slopes, NULL, "slopes");
    return test_run_on_devices("group_norm", &list);
}
