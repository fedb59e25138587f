/* GELU-derivative codes: the nearest level over all shapes, the levels against the conditions of
 * Lloyd and Max, errors, special values, aliasing, padding, repeatability, invalid arguments. */
#include "nn/layers/activation_private.h"
#include "ref/gelu_code_ref.h"
#include "ref/gelu_ref.h"
#include "support/test_layer.h"

/* What the slope in fp32 may be off by, and the border between two levels. */
#define SLACK (8 * 0x1p-24)

/* What activation.h promises for N(0, 1). */
typedef struct code_case {
    unsigned bits;
    double square, largest;
} code_case;

static const code_case code_cases[] = {
    {2, 8.04e-3, 0.182}, {4, 4.68e-4, 0.046}, {8, 1.77e-6, 0.0028}};

enum { CODE_CASES = COUNT_OF(code_cases), MOST_LEVELS = 256 };

static size_t words_of(size_t cols, unsigned bits)
{
    size_t words, bytes;
    TEST_OK(clprune__gelu_code_sizes(NULL, 3, cols, bits, &words, &bytes));
    assert_int_equal(words, (cols * bits + 31) / 32);
    assert_int_equal(bytes, 3 * 4 * words);
    return words;
}

/* The levels as the backward pass knows them: of the codes 0, 1, ..., with dg = 1. */
static void get_levels(unsigned bits, double *levels)
{
    const size_t count = (size_t)1 << bits, words = words_of(count, bits);
    unsigned char bytes[MOST_LEVELS] = {0};
    float packed[MOST_LEVELS / 4], ones[MOST_LEVELS];
    for (size_t i = 0; i < count; i++) {
        gelu_code_ref_set(bytes, bits, i, (unsigned)i);
        ones[i] = 1;
    }
    memcpy(packed, bytes, words * sizeof(float));
    test_mat codes = test_mat_make(1, words, 0, packed), dg = test_mat_make(1, count, 0, ones);
    test_mat dh = test_mat_make(1, count, 0, NULL);
    TEST_OK(clprune__gelu_code_backward(
        test_context(), bits, 0, dg.mat, codes.mat, dh.mat, CLPRUNE_NO_MAT, NULL));
    float *got = test_mat_get(&dh, "levels");
    for (size_t i = 0; i < count; i++)
        levels[i] = (double)got[i];
}

/* --- Both passes over all shapes --- */

typedef struct shape_case {
    layer_shape shape;
    unsigned bits;
} shape_case;

LAYER_SIZE(size_codes, shape_case, s->shape.rows, words_of(s->shape.cols, s->bits), s->shape.gap)

LAYER_CALL_OF(forward, shape_case,
    clprune__gelu_code_forward(
        c->context, CLPRUNE_ACTIVATION_GELU, s->bits, m[0], m[1], m[2], m[3], c->event))

static void ref_forward(const layer_data *d)
{
    double *h = test_doubles(d->count);
    for (size_t i = 0; i < d->count; i++)
        h[i] = d->in[i] + (d[1].in != NULL ? d[1].in[i % d->cols] : 0);
    gelu_ref_forward(d->count, h, d[2].want, d[2].bound);
    for (size_t i = 0; i < d->count; i++)
        d[2].bound[i] += d[1].in != NULL ? 2 * test_bound(0, 0, h[i]) : 0;
}

/* g has the bits of GELU's own pass. Each code is of a level nearest to the slope, and the padding
 * is zero. */
static void check_forward(const void *of, float *const *values)
{
    const shape_case *s = of;
    const size_t rows = s->shape.rows, cols = s->shape.cols, words = words_of(cols, s->bits);
    float *h = test_copy(rows * cols * sizeof *h, values[0]);
    for (size_t i = 0; values[1] != NULL && i < rows * cols; i++)
        h[i] += values[1][i % cols];
    test_mat m = test_mat_make(rows, cols, 0, h);
    TEST_OK(clprune_gelu_forward(test_context(), m.mat, CLPRUNE_NO_MAT, m.mat, NULL));
    test_same_floats("g", rows, cols, values[2], test_mat_get(&m, "g"), "GELU's own pass");
    double levels[MOST_LEVELS];
    get_levels(s->bits, levels);
    for (size_t r = 0; r < rows; r++) {
        const unsigned char *row = (const unsigned char *)(values[3] + r * words);
        for (size_t c = 0; c < cols; c++) {
            const double slope = gelu_code_ref_slope((double)h[r * cols + c]);
            const unsigned code = gelu_code_ref_get(row, s->bits, c);
            const double best = gelu_code_ref_distance(slope, (size_t)1 << s->bits, levels);
            if (!(fabs(slope - levels[code]) <= best + 2 * SLACK))
                fail_msg("row %zu, column %zu: h = %.9g has slope %.9g and code %u (level %.9g), "
                         "nearest level at %.9g",
                    r, c, (double)h[r * cols + c], slope, code, levels[code], best);
        }
        for (size_t bit = cols * s->bits; bit < words * 32; bit++)
            if (gelu_code_ref_get(row, 1, bit) != 0)
                fail_msg("row %zu: padding bit %zu is set", r, bit);
    }
}

static const layer_case forward = {"forward",
    {{"h", LAYER_IN, layer_all, .low = -5, .high = 5},
        {"b", LAYER_IN | LAYER_OPTIONAL | LAYER_ADDED, layer_row, .low = -2, .high = 2},
        {"g", LAYER_OUT, layer_all, .over = 1 << 0},
        {"codes", LAYER_OUT | LAYER_CHECKED, size_codes}},
    call_forward, ref_forward, check_forward};

/* Any codes, and zeros behind each row. */
static void any_codes(const void *of, size_t count, float *values)
{
    const shape_case *s = of;
    const size_t words = size_codes(of).cols;
    test_rng rng = {37};
    memset(values, 0, count * sizeof *values);
    for (size_t i = 0; i < s->shape.rows * s->shape.cols; i++)
        gelu_code_ref_set((unsigned char *)(values + i / s->shape.cols * words), s->bits,
            i % s->shape.cols, (unsigned)test_rng_below(&rng, (size_t)1 << s->bits));
}

LAYER_CALL_OF(backward, shape_case,
    clprune__gelu_code_backward(c->context, s->bits, c->beta, m[0], m[1], m[2], m[3], c->event))

static void ref_backward(const layer_data *d)
{
    const unsigned bits = ((const shape_case *)d->shape)->bits;
    double levels[MOST_LEVELS];
    get_levels(bits, levels);
    for (size_t i = 0; i < d->count; i++) {
        const size_t bit = i % d->cols * bits;
        const uint32_t word = (uint32_t)d[1].in[i / d->cols * d[1].cols + bit / 32];
        const double level = levels[word >> bit % 32 & ((1u << bits) - 1)];
        d[2].want[i] = (double)((float)d->in[i] * (float)level);
    }
    layer_set_sums(&d[3], d->rows, d[2].want, NULL);
}

static const layer_case backward = {"backward",
    {{"dg", LAYER_IN, layer_all}, {"codes", LAYER_IN | LAYER_BITS, size_codes, .change = any_codes},
        {"dh", LAYER_OUT, layer_all, .over = 1 << 0},
        {"db", LAYER_OUT | LAYER_SUM | LAYER_OPTIONAL, layer_row}},
    call_backward, ref_backward, NULL};

/* --- Levels and errors --- */

/* Lloyd and Max: each level is the mean of what is nearest to it, under the distribution for which
 * activation.h says the levels are best. */
static void levels_are_means(void **state)
{
    const code_case *s = *state;
    const size_t count = (size_t)1 << s->bits;
    double levels[MOST_LEVELS], means[MOST_LEVELS], square;
    get_levels(s->bits, levels);
    gelu_code_ref_means(0.5, 2, count, levels, means, &square);
    for (size_t i = 0; i < count; i++) {
        const double width = 1.26 / (double)count; /* of a cell, about */
        if (!(fabs(levels[i] - means[i]) <= 2e-2 * width))
            fail_msg("level %zu is %.7f, the mean of its cell %.7f", i, levels[i], means[i]);
        /* s(-h) = 1 - s(h), and the distribution is even. */
        if (!(fabs(levels[i] + levels[count - 1 - i] - 1) <= 2e-2 * width))
            fail_msg("levels %zu and %zu are %.7f and %.7f", i, count - 1 - i, levels[i],
                levels[count - 1 - i]);
        assert_true(i == 0 || levels[i] > levels[i - 1]);
    }
}

/* The gradient against the exact one, for h ~ N(0, 1) and for h over the line. */
static void errors(void **state)
{
    const code_case *s = *state;
    enum { COUNT = 200000 };
    const size_t words = words_of(COUNT, s->bits);
    float *h = test_new_normal(41, COUNT), *ones = layer_same_values(COUNT, 1);
    test_mat in = test_mat_make(1, COUNT, 0, h), dh = test_mat_make(1, COUNT, 0, NULL);
    test_mat codes = test_mat_make(1, words, 0, NULL);
    for (int round = 0; round < 2; round++) {
        double square = 0, largest = 0;
        for (size_t i = 0; i < COUNT; i++) {
            if (round == 1)
                h[i] = -20 + 40 * (float)i / COUNT;
        }
        test_mat_set(&in, h);
        test_mat_set(&dh, ones);
        TEST_OK(clprune__gelu_code_forward(test_context(), CLPRUNE_ACTIVATION_GELU, s->bits, in.mat,
            CLPRUNE_NO_MAT, in.mat, codes.mat, NULL));
        TEST_OK(clprune__gelu_code_backward(
            test_context(), s->bits, 0, dh.mat, codes.mat, dh.mat, CLPRUNE_NO_MAT, NULL));
        float *got = test_mat_get(&dh, "dh");
        for (size_t i = 0; i < COUNT; i++) {
            const double error = fabs((double)got[i] - gelu_code_ref_slope((double)h[i]));
            square += error * error / COUNT;
            largest = fmax(largest, error);
        }
        if (largest > s->largest)
            fail_msg("%u bits: largest error %.5f", s->bits, largest);
        /* The mean over so many draws is known to about 0.5 %. */
        if (round == 0 && !(square <= 1.02 * s->square && square >= 0.97 * s->square))
            fail_msg("%u bits: mean square %.4e, promised %.4e", s->bits, square, s->square);
    }
}

/* Forward, then backward: what lies between is a matrix of codes. */
static clprune_status call_both(const layer_call *c)
{
    const clprune_mat *m = c->m;
    const unsigned bits = ((const shape_case *)c->shape)->bits;
    TEST_OK(clprune__gelu_code_forward(
        c->context, CLPRUNE_ACTIVATION_GELU, bits, m[0], CLPRUNE_NO_MAT, m[3], m[2], NULL));
    return clprune__gelu_code_backward(c->context, bits, 0, m[1], m[2], m[3], m[4], c->event);
}

static const layer_case both = {"both passes",
    {{"h", LAYER_IN, layer_all}, {"dg", LAYER_IN, layer_all},
        {"codes", LAYER_OUT | LAYER_SCRATCH, size_codes}, {"dh", LAYER_OUT, layer_all},
        {"db", LAYER_OUT, layer_row}},
    call_both, NULL, NULL};

/* As near to GELU's slopes as the codes allow. */
static void slopes(NO_ROW)
{
    static const shape_case shape = {{60, 9, 0}, 8};
    layer_case exact = forward;
    exact.operands[1].change = layer_zeros;
    exact.call = NULL;
    layer_slopes_of(&exact, &both, &shape, (layer_steps){1e-4, 0, 0, 0, 5e-3});
}

static void special_values(void **state)
{
    const code_case *s = *state;
    static const float h[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0f, -0.0f, 1e30f, -1e30f, 1e-45f,
        3.4e38f, -3.4e38f, 15.1f, -15.1f, 1.41421356f, -1.41421356f, 20, -20};
    enum { COUNT = COUNT_OF(h) };
    double levels[MOST_LEVELS];
    const size_t words = words_of(COUNT, s->bits);
    test_mat in = test_mat_make(1, COUNT, 0, h), out = test_mat_make(1, COUNT, 0, NULL);
    test_mat codes = test_mat_make(1, words, 0, NULL);
    get_levels(s->bits, levels);
    TEST_OK(clprune__gelu_code_forward(test_context(), CLPRUNE_ACTIVATION_GELU, s->bits, in.mat,
        CLPRUNE_NO_MAT, out.mat, codes.mat, NULL));
    float *packed = test_mat_get(&codes, "codes"), *g = test_mat_get(&out, "g");
    for (size_t i = 0; i < COUNT; i++) {
        const unsigned code = gelu_code_ref_get((const unsigned char *)packed, s->bits, i);
        const double slope = gelu_code_ref_slope((double)h[i]);
        if (isnan(h[i])) {
            assert_true(isnan(g[i]));
            assert_int_equal(code, 0);
        } else {
            const double best = gelu_code_ref_distance(slope, (size_t)1 << s->bits, levels);
            assert_true(fabs(slope - levels[code]) <= best + 2 * SLACK);
        }
    }
    /* NaN and infinite gradients stay visible. */
    const float bad[3] = {NAN, INFINITY, -INFINITY};
    test_mat dg = test_mat_make(1, 3, 0, bad), few = test_mat_make(1, 1, 0, packed);
    TEST_OK(clprune__gelu_code_backward(
        test_context(), s->bits, 0, dg.mat, few.mat, dg.mat, CLPRUNE_NO_MAT, NULL));
    float *dh = test_mat_get(&dg, "dh");
    assert_true(isnan(dh[0]) && isinf(dh[1]) && isinf(dh[2]));
}

int main(void)
{
    static shape_case cases[LAYER_SHAPES * CODE_CASES];
    test_list list = {0};
    for (size_t i = 0; i < LAYER_SHAPES * CODE_CASES; i++) {
        const layer_shape *s = &layer_shapes[i / CODE_CASES];
        const unsigned bits = code_cases[i % CODE_CASES].bits;
        cases[i] = (shape_case){*s, bits};
        if (!layer_is_wanted(s))
            continue;
        layer_add_one(&list, &forward, &cases[i], "%u bits, %zu x %zu", bits, s->rows, s->cols);
        layer_add_one(&list, &backward, &cases[i], "%u bits, %zu x %zu", bits, s->rows, s->cols);
    }
    for (size_t k = 0; k < CODE_CASES; k++) {
        const code_case *s = &code_cases[k];
        test_add(&list, levels_are_means, s, "%u bits: levels", s->bits);
        test_add(&list, errors, s, "%u bits: errors", s->bits);
        test_add(&list, special_values, s, "%u bits: special values", s->bits);
    }
    test_add(&list, slopes, NULL, "slopes");
    return test_run_on_devices("gelu_code", &list);
}
