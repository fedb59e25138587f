/* Dropout: the mask against the reference, its statistics, parts of a batch, seeds, both passes,
 * slopes, special values. */
#include "ref/dropout_ref.h"
#include "ref/quantise_ref.h"
#include "support/test_layer.h"

#define ROW_LIMIT ((uint64_t)1 << 32) /* of 32 bits */

typedef struct shape {
    layer_shape all;
    float rate;
    uint64_t seed, first_row;
} shape;

LAYER_CALL_OF(forward, shape,
    clprune_dropout(c->context, s->rate, s->seed, s->first_row, m[0], m[1], c->event))

/* The factor and the product are rounded. */
static void ref_dropout(const layer_data *d)
{
    const shape *s = d->shape;
    for (size_t i = 0; i < d[1].count; i++) {
        const bool keep =
            dropout_ref_keeps((double)s->rate, s->seed, s->first_row + i / d->cols, i % d->cols);
        d[1].want[i] = keep ? d->in[i] / (1 - (double)s->rate) : 0;
        d[1].bound[i] = s->rate > 0 ? test_bound(0, 0, 2 * d[1].want[i]) : 0;
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, layer_all}, {"y", LAYER_OUT, layer_all, .over = 1 << 0}}, call_forward,
    ref_dropout, NULL};

static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, layer_all}, {"dx", LAYER_OUT, layer_all, .over = 1 << 0}}, call_forward,
    ref_dropout, NULL};

static void slopes(NO_ROW)
{
    static const shape few = {{11, 37, 0}, 0.4f, 5, 9};
    layer_slopes_of(&forward, &backward, &few, (layer_steps){1e-2, 1e-8, 1e-2, 1e-4, 1e-6});
}

/* ---- the mask -------------------------------------------------------------------------------- */

enum { ROWS = 200, COLS = 531 };

/* clprune_dropout of rows x cols values; NULL: of ones. */
static float *drop(
    float rate, uint64_t seed, uint64_t first_row, size_t rows, size_t cols, const float *x)
{
    const float *from = x != NULL ? x : layer_same_values(rows * cols, 1);
    const test_mat in = test_mat_make(rows, cols, 1, from),
                   out = test_mat_make(rows, cols, 3, NULL);
    TEST_OK(clprune_dropout(test_context(), rate, seed, first_row, in.mat, out.mat, NULL));
    return test_mat_get(&out, "y");
}

/* Fails unless `found` of `count` events have the probability p: 5 deviations. */
static void check_share(const char *what, float rate, double found, double count, double p)
{
    if (!(fabs(found - count * p) <= 5 * sqrt(count * p * (1 - p)) + 1e-9))
        fail_msg("rate %g, %s: %g of %g, expected %g", (double)rate, what, found, count, count * p);
}

/* The share of kept elements, in all and in each row and column, and of pairs of neighbours and of
 * seeds in which both are kept. */
static void statistics(NO_ROW)
{
    static const float rates[] = {0.01f, 0.1f, 0.5f, 0.9f};
    for (size_t k = 0; k < COUNT_OF(rates); k++) {
        const double p = 1 - (double)rates[k];
        const float *y = drop(rates[k], 11, 3, ROWS, COLS, NULL),
                    *next = drop(rates[k], 12, 3, ROWS, COLS, NULL);
        double all = 0, right = 0, below = 0, seeds = 0, rows[ROWS] = {0}, cols[COLS] = {0};
        for (size_t i = 0; i < (size_t)ROWS * COLS; i++) {
            const size_t r = i / COLS, c = i % COLS;
            if (y[i] == 0)
                continue;
            all++;
            rows[r]++;
            cols[c]++;
            right += c + 1 < COLS && y[i + 1] != 0;
            below += r + 1 < ROWS && y[i + COLS] != 0;
            seeds += next[i] != 0;
        }
        check_share("kept", rates[k], all, (double)ROWS * COLS, p);
        for (size_t r = 0; r < ROWS; r++)
            check_share("kept of a row", rates[k], rows[r], COLS, p);
        for (size_t c = 0; c < COLS; c++)
            check_share("kept of a column", rates[k], cols[c], ROWS, p);
        check_share("neighbours in a row", rates[k], right, (double)ROWS * (COLS - 1), p * p);
        check_share("neighbours in a column", rates[k], below, (double)(ROWS - 1) * COLS, p * p);
        check_share("of two seeds", rates[k], seeds, (double)ROWS * COLS, p * p);
    }
}

/* The mean over seeds is x: within 5 deviations of each element's mean. */
static void unbiased(NO_ROW)
{
    enum { R = 7, C = 33, SEEDS = 400 };
    static const float rates[] = {0.1f, 0.5f, 0.8f};
    const float *x = test_new_normal(2, (size_t)R * C);
    for (size_t k = 0; k < COUNT_OF(rates); k++) {
        double *sum = test_doubles((size_t)R * C);
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            const size_t mark = test_mark();
            const float *y = drop(rates[k], seed, 0, R, C, x);
            for (size_t i = 0; i < (size_t)R * C; i++)
                sum[i] += (double)y[i];
            test_release(mark);
        }
        const double p = 1 - (double)rates[k], deviation = sqrt((1 - p) / p / SEEDS);
        for (size_t i = 0; i < (size_t)R * C; i++)
            if (!(fabs(sum[i] / SEEDS - (double)x[i]) <= 5 * deviation * fabs((double)x[i])))
                fail_msg("rate %g: the mean of element %zu is %g, expected %g", (double)rates[k], i,
                    sum[i] / SEEDS, (double)x[i]);
    }
}

/* Rows in parts have the bits of the whole, also where their numbers pass 2^32 and 2^64. */
static void parts(NO_ROW)
{
    static const uint64_t firsts[] = {0, 1000, ROW_LIMIT - 5, 3 * ROW_LIMIT + 7, UINT64_MAX - 9};
    static const size_t ends[] = {0, 1, 6, 19, 40};
    enum { WHOLE = 40, WIDTH = 67 };
    const float *x = test_new_normal(4, (size_t)WHOLE * WIDTH);
    for (size_t f = 0; f < COUNT_OF(firsts); f++) {
        const float *whole = drop(0.3f, 77, firsts[f], WHOLE, WIDTH, x);
        for (size_t k = 0; k + 1 < COUNT_OF(ends); k++) {
            const size_t at = ends[k] * WIDTH, rows = ends[k + 1] - ends[k];
            test_same_floats("y", rows, WIDTH,
                drop(0.3f, 77, firsts[f] + ends[k], rows, WIDTH, x + at), whole + at,
                "rows from %zu on, the first is %llu", ends[k], (unsigned long long)firsts[f]);
        }
    }
}

/* Samples of drop_path are whole, their mask is that of a column, in parts as in one call. */
static void paths(NO_ROW)
{
    enum { BATCH = 50, EACH = 3, WIDTH = 21, FIRST = 9 };
    const float *x = test_new_normal(5, (size_t)BATCH * EACH * WIDTH);
    const float *mask = drop(0.3f, 77, FIRST, BATCH, 1, NULL);
    const test_mat in = test_mat_make(BATCH * EACH, WIDTH, 1, x),
                   out = test_mat_make(BATCH * EACH, WIDTH, 3, NULL);
    static const size_t ends[] = {0, 1, 20, BATCH};
    for (size_t k = 0; k + 1 < COUNT_OF(ends); k++) {
        const size_t count = ends[k + 1] - ends[k];
        TEST_OK(clprune_drop_path(test_context(), 0.3f, 77, count, FIRST + ends[k],
            clprune_mat_rows(in.mat, ends[k] * EACH, count * EACH),
            clprune_mat_rows(out.mat, ends[k] * EACH, count * EACH), NULL));
    }
    const float *y = test_mat_get(&out, "y");
    for (size_t i = 0; i < (size_t)BATCH * EACH * WIDTH; i++)
        assert_true(y[i] == mask[i / WIDTH / EACH] * x[i]);
    TEST_FAILS(clprune_drop_path(test_context(), 0.3f, 77, 7, 0, in.mat, out.mat, NULL),
        CLPRUNE_INVALID_SIZE, "x has 150 rows, expected a multiple of batch, 7");
}

/* The row whose stream of random bits with `seed` is that of row 0 with seed 42. */
static uint64_t row_of_same_stream(uint64_t seed)
{
    const uint32_t golden = UINT32_C(0x9e3779b9);
    uint32_t inverse = golden; /* of odd numbers: each step doubles its correct bits, 3 at first */
    for (int i = 0; i < 4; i++)
        inverse *= 2 - golden * inverse;
    return (quantise_ref_stream(42, 0) - quantise_ref_stream(seed, 0)) * inverse;
}

/* Other seeds and rows have other masks, as independent ones differ: also where seeds or rows
 * differ in their upper bits, or where their streams are the same. */
static void other_masks(NO_ROW)
{
    const struct {
        const char *name;
        uint64_t seed, first_row;
    } others[] = {{"the next seed", 43, 0}, {"a seed 2^32 apart", 42 + ROW_LIMIT, 0},
        {"the next row", 42, 1}, {"rows behind", 42, ROWS}, {"rows 2^32 apart", 42, ROW_LIMIT},
        {"rows 2^63 apart", 42, (uint64_t)1 << 63},
        {"the same stream", 43, row_of_same_stream(43)}};
    const double p = 0.5;
    const float *y = drop(0.5f, 42, 0, ROWS, COLS, NULL);
    assert_int_equal(
        quantise_ref_stream(43, (uint32_t)row_of_same_stream(43)), quantise_ref_stream(42, 0));
    for (size_t k = 0; k < COUNT_OF(others); k++) {
        const float *other = drop(0.5f, others[k].seed, others[k].first_row, ROWS, COLS, NULL);
        double differ = 0;
        for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
            differ += y[i] != other[i];
        check_share(others[k].name, 0.5f, differ, (double)ROWS * COLS, 2 * p * (1 - p));
    }
}

/* The gradient passes exactly where the value does, by the same factor. */
static void both_passes(NO_ROW)
{
    const float *x = test_new_uniform(6, 1, 2, (size_t)ROWS * COLS),
                *dy = test_new_uniform(7, 1, 2, (size_t)ROWS * COLS);
    const float *y = drop(0.25f, 9, ROW_LIMIT, ROWS, COLS, x),
                *dx = drop(0.25f, 9, ROW_LIMIT, ROWS, COLS, dy);
    const float factor = 4.0f / 3;
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        if (y[i] != (y[i] != 0 ? factor * x[i] : 0) || dx[i] != (y[i] != 0 ? factor * dy[i] : 0))
            fail_msg("element %zu: y %g of %g, dx %g of %g", i, (double)y[i], (double)x[i],
                (double)dx[i], (double)dy[i]);
}

/* ---- special values -------------------------------------------------------------------------- */

static void special_values(NO_ROW)
{
    enum { COUNT = 300 };
    float x[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    const float *y = drop(0.5f, 1, 0, 1, COUNT, x);
    size_t dropped = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const bool kept = dropout_ref_keeps(0.5, 1, 0, i);
        assert_true(kept ? isnan(x[i]) ? isnan(y[i]) : y[i] == x[i] : y[i] == 0 && !signbit(y[i]));
        dropped += !kept;
    }
    assert_true(dropped > COUNT / 3);
}

/* 0 copies every bit, also in place, where nothing is to do; the rates around it drop nothing. */
static void extreme_rates(NO_ROW)
{
    static const float x[] = {NAN, -NAN, INFINITY, -0.0f, 1.5f, -3e38f, 1e-30f};
    enum { COUNT = COUNT_OF(x) };
    test_same_floats("y", 1, COUNT, drop(0, 1, 2, 1, COUNT, x), x, "rate 0");
    test_same_floats("y", 1, COUNT, drop(-0.0f, 1, 2, 1, COUNT, x), x, "rate -0");
    const test_mat m = test_mat_make(1, COUNT, 0, x);
    TEST_EVENT(clprune_dropout(test_context(), 0, 1, 2, m.mat, m.mat, &event));
    test_mat_unchanged(&m, "y");
    const test_buf both = test_buf_make(COUNT * sizeof(float), x); /* as a buffer, and as a part */
    TEST_OK(clprune_dropout(test_context(), 0, 1, 2, test_buf_alias(&both, 1, COUNT),
        clprune_mat_of(both.buffer, 1, COUNT), NULL));
    test_buf_unchanged(&both, "y");
    const float *y = drop(1e-30f, 1, 2, ROWS, COLS, NULL);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        assert_true(y[i] == 1);
    y = drop(1 - 0x1p-24f, 1, 2, ROWS, COLS, NULL);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        assert_true(y[i] == 0 || y[i] == 0x1p24f);
}

int main(void)
{
    static const struct {
        float rate;
        uint64_t seed, first_row;
    } ways[] = {{0.1f, 0, 0}, {0.75f, UINT64_MAX, ROW_LIMIT - 3}, {0, 3, 1}};
    static shape shapes[COUNT_OF(ways)][LAYER_SHAPES];
    test_list list = {0};
    for (size_t k = 0; k < COUNT_OF(ways); k++)
        for (size_t i = 0; i < LAYER_SHAPES; i++) {
            const layer_shape *s = &layer_shapes[i];
            shapes[k][i] = (shape){*s, ways[k].rate, ways[k].seed, ways[k].first_row};
            if (layer_is_wanted(s))
                layer_add_one(&list, &forward, &shapes[k][i], "%zu x %zu + %zu, rate %g", s->rows,
                    s->cols, s->gap, (double)ways[k].rate);
        }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, paths, NULL, "whole samples");
    test_add(&list, parts, NULL, "parts and the whole");
    if (!test_small()) {
        test_add(&list, statistics, NULL, "statistics of the mask");
        test_add(&list, unbiased, NULL, "the mean over seeds");
        test_add(&list, other_masks, NULL, "other seeds and rows");
    }
    test_add(&list, both_passes, NULL, "both passes");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, extreme_rates, NULL, "extreme rates");
    return test_run_on_devices("dropout", &list);
}
