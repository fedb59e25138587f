/* GELU-derivative codes: the nearest level over all shapes, the levels against the conditions of
 * Lloyd and Max, errors, special values, aliasing, padding, repeatability, invalid arguments. */
#include "nn/layers/activation_private.h"
#include "ref/gelu_code_ref.h"
#include "support/test_layer.h"

/* What the slope in fp32 may be off by, and the border between two levels. */
#define SLACK (8 * 0x1p-24)

/* What gelu_code.h promises for N(0, 1). */
typedef struct code_case {
    unsigned bits;
    double square, largest;
} code_case;

static const code_case code_cases[] = {
    {2, 8.04e-3, 0.182}, {4, 4.68e-4, 0.046}, {8, 1.77e-6, 0.0028}};

enum { CODE_CASES = sizeof code_cases / sizeof code_cases[0], MOST_LEVELS = 256 };

static size_t words_of(size_t cols, unsigned bits)
{
    clprune_gelu_code_sizes sizes;
    TEST_OK(clprune_gelu_code_size_query(3, cols, bits, &sizes));
    assert_int_equal(sizes.cols, (cols * bits + 31) / 32);
    assert_int_equal(sizes.bytes, 3 * 4 * sizes.cols);
    return sizes.cols;
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
    const layer_shape *shape;
    unsigned bits;
} shape_case;

/* Fails unless each code is of a level nearest to the slope, and the padding is zero. */
static void check_codes(const shape_case *s, const float *h, const float *packed, float *level_of)
{
    const size_t cols = s->shape->cols, words = words_of(cols, s->bits);
    double levels[MOST_LEVELS];
    get_levels(s->bits, levels);
    for (size_t r = 0; r < s->shape->rows; r++) {
        const unsigned char *row = (const unsigned char *)(packed + r * words);
        for (size_t c = 0; c < cols; c++) {
            const size_t at = r * cols + c;
            const double slope = gelu_code_ref_slope((double)h[at]);
            const unsigned code = gelu_code_ref_get(row, s->bits, c);
            const double best = gelu_code_ref_distance(slope, (size_t)1 << s->bits, levels);
            if (!(fabs(slope - levels[code]) <= best + 2 * SLACK))
                fail_msg("row %zu, column %zu: h = %.9g has slope %.9g and code %u (level %.9g), "
                         "nearest level at %.9g",
                    r, c, (double)h[at], slope, code, levels[code], best);
            level_of[at] = (float)levels[code];
        }
        for (size_t bit = cols * s->bits; bit < words * 32; bit++)
            if (gelu_code_ref_get(row, 1, bit) != 0)
                fail_msg("row %zu: padding bit %zu is set", r, bit);
    }
}

/* The pass that also sums dh, dh in the place of dg: the bits of `plain`, which are `want`, and db,
 * written and added to what is there. */
static void check_sums(const shape_case *s, const test_mat *codes, test_mat *gradient,
    const test_mat *plain, const double *want)
{
    const size_t rows = s->shape->rows, cols = s->shape->cols;
    float *start = test_new_normal(34, cols), *dg = test_mat_get(gradient, "dg");
    double *sum = layer_new(cols), *size = layer_new(cols), *bound = layer_new(cols);
    test_mat db[3] = {test_mat_make(1, cols, 0, NULL), test_mat_make(1, cols, 2, start),
        test_mat_make(1, cols, 1, NULL)};
    for (size_t i = 0; i < rows * cols; i++) {
        sum[i % cols] += want[i];
        size[i % cols] += fabs(want[i]);
    }
    for (int round = 0; round < 3; round++) {
        cl_event event = NULL;
        test_mat_set(gradient, dg);
        TEST_OK(clprune__gelu_code_backward(test_context(), s->bits, round == 1 ? 1 : 0,
            gradient->mat, codes->mat, gradient->mat, db[round].mat, &event));
        layer_event(event);
        layer_same("dh over dg, with db", plain, gradient);
        for (size_t c = 0; c < cols; c++) {
            if (round == 1) {
                sum[c] += (double)start[c];
                size[c] += fabs((double)start[c]);
            }
            bound[c] = test_bound(rows + 1, size[c], sum[c]);
        }
        if (round < 2)
            layer_check("db", &db[round], sum, bound, round == 0 ? "sums" : "sums, added");
    }
    layer_same("db", &db[0], &db[2]);
    test_mat_unchanged(codes, "codes");
}

/* With a bias the codes and g are those of h + b, and h stays, or becomes g. */
static void check_bias(const shape_case *s, const float *h)
{
    const layer_shape *shape = s->shape;
    const size_t count = shape->rows * shape->cols, words = words_of(shape->cols, s->bits);
    clprune_context *context = test_context();
    float *b = test_new_uniform(35, -2, 2, shape->cols), *sum = test_new_normal(36, count);
    for (size_t i = 0; i < count; i++)
        sum[i] = h[i] + b[i % shape->cols];
    test_mat in = test_mat_make(shape->rows, shape->cols, shape->gap, h);
    test_mat moved = test_mat_make(shape->rows, shape->cols, 0, sum);
    test_mat bias = test_mat_make(1, shape->cols, 1, b), g[2], codes[3];
    for (int i = 0; i < 2; i++)
        g[i] = test_mat_make(shape->rows, shape->cols, shape->gap, NULL);
    for (int i = 0; i < 3; i++)
        codes[i] = test_mat_make(shape->rows, words, shape->gap, NULL);
#define FORWARD(...) TEST_OK(clprune__gelu_code_forward(context, s->bits, __VA_ARGS__, NULL))
    FORWARD(moved.mat, CLPRUNE_NO_MAT, g[0].mat, codes[0].mat);
    FORWARD(in.mat, bias.mat, g[1].mat, codes[1].mat);
    test_mat_unchanged(&in, "h");
    test_mat_unchanged(&bias, "b");
    FORWARD(in.mat, bias.mat, in.mat, codes[2].mat);
#undef FORWARD
    layer_same("g with a bias", &g[0], &g[1]);
    layer_same("g over h, with a bias", &g[0], &in);
    layer_same("codes with a bias", &codes[0], &codes[1]);
    layer_same("codes with a bias, g over h", &codes[0], &codes[2]);
}

static void shapes(void **state)
{
    const shape_case *s = *state;
    const layer_shape *shape = s->shape;
    const size_t count = shape->rows * shape->cols, words = words_of(shape->cols, s->bits);
    clprune_context *context = test_context();
    float *h = test_new_uniform(31, -5, 5, count), *dg = test_new_normal(32, count);
    float *level_of = test_new_normal(33, count);
    double *want = layer_new(count), *exact = layer_new(count);
    test_mat in = test_mat_make(shape->rows, shape->cols, shape->gap, h);
    test_mat out = test_mat_make(shape->rows, shape->cols, shape->gap + 1, NULL);
    test_mat plain = test_mat_make(shape->rows, shape->cols, shape->gap + 2, NULL);
    test_mat gradient = test_mat_make(shape->rows, shape->cols, shape->gap, dg);
    test_mat codes = test_mat_make(shape->rows, words, shape->gap, NULL);
    test_mat again = test_mat_make(shape->rows, words, 0, NULL);
    cl_event event = NULL;
    TEST_OK(clprune__gelu_code_forward(
        context, s->bits, in.mat, CLPRUNE_NO_MAT, out.mat, codes.mat, &event));
    layer_event(event);
    TEST_OK(clprune_gelu_forward(context, in.mat, CLPRUNE_NO_MAT, plain.mat, NULL));
    layer_same("g", &out, &plain);
    test_mat_unchanged(&in, "h");
    float *packed = test_mat_get(&codes, "codes");
    check_codes(s, h, packed, level_of);
    TEST_OK(clprune__gelu_code_forward(
        context, s->bits, in.mat, CLPRUNE_NO_MAT, in.mat, again.mat, NULL));
    layer_same("g over h", &out, &in);
    layer_same("codes", &codes, &again);

    for (size_t i = 0; i < count; i++)
        want[i] = (double)(dg[i] * level_of[i]);
    test_mat_set(&codes, packed);
    TEST_OK(clprune__gelu_code_backward(
        context, s->bits, 0, gradient.mat, codes.mat, out.mat, CLPRUNE_NO_MAT, &event));
    layer_event(event);
    layer_check("dh", &out, want, exact, "backward");
    test_mat_unchanged(&gradient, "dg");
    test_mat_unchanged(&codes, "codes");
    check_sums(s, &codes, &gradient, &out, want);
    check_bias(s, h);
}

/* --- Levels and errors --- */

/* Lloyd and Max: each level is the mean of what is nearest to it, under the distribution for which
 * gelu_code.h says the levels are best. */
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
    clprune_context *context = test_context();
    const size_t words = words_of(COUNT, s->bits);
    float *h = test_new_normal(41, COUNT), *ones = test_new_normal(0, COUNT);
    test_mat in = test_mat_make(1, COUNT, 0, h), dh = test_mat_make(1, COUNT, 0, NULL);
    test_mat codes = test_mat_make(1, words, 0, NULL);
    for (int round = 0; round < 2; round++) {
        double square = 0, largest = 0;
        for (size_t i = 0; i < COUNT; i++) {
            ones[i] = 1;
            if (round == 1)
                h[i] = -20 + 40 * (float)i / COUNT;
        }
        test_mat_set(&in, h);
        test_mat_set(&dh, ones);
        TEST_OK(clprune__gelu_code_forward(
            context, s->bits, in.mat, CLPRUNE_NO_MAT, in.mat, codes.mat, NULL));
        TEST_OK(clprune__gelu_code_backward(
            context, s->bits, 0, dh.mat, codes.mat, dh.mat, CLPRUNE_NO_MAT, NULL));
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

typedef struct moved_inputs {
    size_t rows, cols;
    const float *h, *dg;
} moved_inputs;

/* sum dg * gelu(h + b) as a function of b. */
static double shifted_loss(void *user, const double *b)
{
    const moved_inputs *s = user;
    double loss = 0;
    for (size_t i = 0; i < s->rows * s->cols; i++) {
        const double h = (double)s->h[i] + b[i % s->cols];
        loss += (double)s->dg[i] * h * 0.5 * erfc(-h / sqrt(2.0));
    }
    return loss;
}

/* db against differences of the loss, as near as the code of the derivative allows. */
static void slopes(void **state)
{
    (void)state;
    enum { ROWS = 60, COLS = 9, BITS = 8 };
    clprune_context *context = test_context();
    float *h = test_new_normal(43, ROWS * COLS), *dg = test_new_normal(44, ROWS * COLS);
    moved_inputs s = {ROWS, COLS, h, dg};
    const double b[COLS] = {0};
    test_mat in = test_mat_make(ROWS, COLS, 0, h), dh = test_mat_make(ROWS, COLS, 0, dg);
    test_mat codes = test_mat_make(ROWS, words_of(COLS, BITS), 0, NULL);
    test_mat db = test_mat_make(1, COLS, 0, NULL);
    TEST_OK(
        clprune__gelu_code_forward(context, BITS, in.mat, CLPRUNE_NO_MAT, in.mat, codes.mat, NULL));
    TEST_OK(clprune__gelu_code_backward(context, BITS, 0, dh.mat, codes.mat, dh.mat, db.mat, NULL));
    float *got = test_mat_get(&db, "db");
    double *grad = layer_widen(COLS, got);
    layer_slopes("db", shifted_loss, &s, COLS, b, grad, 1e-4, 5e-3);
}

static void special_values(void **state)
{
    const code_case *s = *state;
    static const float h[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0f, -0.0f, 1e30f, -1e30f, 1e-45f,
        3.4e38f, -3.4e38f, 15.1f, -15.1f, 1.41421356f, -1.41421356f, 20, -20};
    enum { COUNT = sizeof h / sizeof h[0] };
    clprune_context *context = test_context();
    double levels[MOST_LEVELS];
    const size_t words = words_of(COUNT, s->bits);
    test_mat in = test_mat_make(1, COUNT, 0, h), out = test_mat_make(1, COUNT, 0, NULL);
    test_mat codes = test_mat_make(1, words, 0, NULL);
    get_levels(s->bits, levels);
    TEST_OK(clprune__gelu_code_forward(
        context, s->bits, in.mat, CLPRUNE_NO_MAT, out.mat, codes.mat, NULL));
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
        context, s->bits, 0, dg.mat, few.mat, dg.mat, CLPRUNE_NO_MAT, NULL));
    float *dh = test_mat_get(&dg, "dh");
    assert_true(isnan(dh[0]) && isinf(dh[1]) && isinf(dh[2]));
}

/* --- Invalid arguments --- */

static void invalid_sizes(void)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, over = CLPRUNE_SIZE_OVERFLOW;
    static const unsigned bad_bits[] = {0, 1, 3, 5, 6, 7, 9, 16, 32};
    clprune_gelu_code_sizes sizes;
    for (size_t i = 0; i < sizeof bad_bits / sizeof bad_bits[0]; i++) {
        sizes = (clprune_gelu_code_sizes){7, 7};
        assert_int_equal(clprune_gelu_code_size_query(2, 3, bad_bits[i], &sizes), bad);
        assert_true(sizes.cols == 0 && sizes.bytes == 0);
    }
    assert_int_equal(clprune_gelu_code_size_query(2, 3, 2, NULL), bad);
    sizes = (clprune_gelu_code_sizes){7, 7};
    assert_int_equal(clprune_gelu_code_size_query(1, SIZE_MAX / 2, 4, &sizes), over);
    assert_int_equal(clprune_gelu_code_size_query(SIZE_MAX / 4, 64, 2, &sizes), over);
    assert_true(sizes.cols == 0 && sizes.bytes == 0);
    TEST_OK(clprune_gelu_code_size_query(0, 5, 8, &sizes));
    assert_true(sizes.cols == 2 && sizes.bytes == 0);
}

static void invalid(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat h = test_mat_make(4, 17, 0, NULL), g = test_mat_make(4, 17, 0, NULL);
    test_mat narrow = test_mat_make(4, 16, 0, NULL), codes = test_mat_make(4, 3, 0, NULL);
    test_mat wide = test_mat_make(4, 5, 0, NULL), low = test_mat_make(3, 3, 0, NULL);
    test_mat db = test_mat_make(1, 17, 0, NULL), large = test_mat_make(8, 3, 0, NULL);
    clprune_mat shifted = h.mat, inside = h.mat, inside_g = g.mat;
    shifted.offset += 1;
    inside.cols = inside_g.cols = 3;
    inside.offset += 2;
    cl_event event = NULL;
    const clprune_mat none = CLPRUNE_NO_MAT, in_h = clprune_mat_rows(h.mat, 2, 1);
    const clprune_mat in_g = clprune_mat_rows(g.mat, 1, 1), sum = db.mat;
    clprune_mat in_codes = large.mat;
    in_codes.rows = 1;
    in_codes.cols = 17;
    in_codes.ld = 17;
#define FORWARD(...)  clprune__gelu_code_forward(__VA_ARGS__, &event)
#define BACKWARD(...) clprune__gelu_code_backward(__VA_ARGS__, &event)
    assert_int_equal(FORWARD(NULL, 4, h.mat, none, g.mat, codes.mat), bad);
    TEST_FAILS(FORWARD(context, 3, h.mat, none, g.mat, codes.mat), bad, "bits is 3");
    TEST_FAILS(FORWARD(context, 4, h.mat, none, narrow.mat, codes.mat), size, "g is");
    TEST_FAILS(FORWARD(context, 4, h.mat, none, g.mat, wide.mat), size, "codes is");
    TEST_FAILS(FORWARD(context, 8, h.mat, none, g.mat, codes.mat), size, "codes is");
    TEST_FAILS(FORWARD(context, 4, h.mat, none, g.mat, low.mat), size, "codes is");
    TEST_FAILS(FORWARD(context, 4, h.mat, none, g.mat, CLPRUNE_NO_MAT), size, "codes is");
    TEST_FAILS(FORWARD(context, 4, h.mat, none, shifted, codes.mat), bad, "g overlaps h");
    TEST_FAILS(FORWARD(context, 4, h.mat, none, g.mat, inside), bad, "codes overlaps h");
    TEST_FAILS(FORWARD(context, 4, h.mat, none, g.mat, inside_g), bad, "codes overlaps g");
    const clprune_mat first_codes = clprune_mat_rows(large.mat, 0, 4);
    TEST_FAILS(FORWARD(context, 4, h.mat, narrow.mat, g.mat, codes.mat), size, "b is");
    TEST_FAILS(FORWARD(context, 4, h.mat, in_h, g.mat, codes.mat), bad, "h overlaps b");
    TEST_FAILS(FORWARD(context, 4, h.mat, in_g, g.mat, codes.mat), bad, "g overlaps b");
    TEST_FAILS(FORWARD(context, 4, h.mat, in_codes, g.mat, first_codes), bad, "codes overlaps b");
    assert_int_equal(BACKWARD(NULL, 4, 0, h.mat, codes.mat, g.mat, none), bad);
    TEST_FAILS(BACKWARD(context, 0, 0, h.mat, codes.mat, g.mat, none), bad, "bits is 0");
    TEST_FAILS(BACKWARD(context, 4, 0, h.mat, wide.mat, g.mat, none), size, "codes is");
    TEST_FAILS(BACKWARD(context, 4, 0, h.mat, codes.mat, narrow.mat, sum), size, "dh is");
    TEST_FAILS(BACKWARD(context, 4, 0, h.mat, codes.mat, shifted, sum), bad, "dh overlaps dg");
    TEST_FAILS(BACKWARD(context, 4, 0, h.mat, inside_g, g.mat, sum), bad, "dh overlaps codes");
    TEST_FAILS(BACKWARD(context, 4, 1, h.mat, codes.mat, g.mat, narrow.mat), size, "db is");
    TEST_FAILS(BACKWARD(context, 4, 1, h.mat, codes.mat, g.mat, in_h), bad, "db overlaps dg");
    TEST_FAILS(BACKWARD(context, 4, 1, h.mat, codes.mat, g.mat, in_g), bad, "db overlaps dh");
    TEST_FAILS(
        BACKWARD(context, 4, 1, h.mat, first_codes, g.mat, in_codes), bad, "db overlaps codes");
    assert_null(event);
    test_mat *mats[] = {&h, &g, &narrow, &codes, &wide, &low, &db, &large};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
    invalid_sizes();
}

int main(void)
{
    static shape_case cases[LAYER_SHAPES * CODE_CASES];
    test_list list = {0};
    size_t used = 0;
    for (size_t i = 0; i < LAYER_SHAPES; i++)
        for (size_t k = 0; k < CODE_CASES; k++) {
            const layer_shape *s = &layer_shapes[i];
            cases[used] = (shape_case){s, code_cases[k].bits};
            if (!test_small() || s->rows * s->cols < 10000)
                test_add(&list, shapes, &cases[used++], "%u bits, %zu x %zu + %zu",
                    code_cases[k].bits, s->rows, s->cols, s->gap);
        }
    for (size_t k = 0; k < CODE_CASES; k++) {
        const code_case *s = &code_cases[k];
        test_add(&list, levels_are_means, s, "%u bits: levels", s->bits);
        test_add(&list, errors, s, "%u bits: errors", s->bits);
        test_add(&list, special_values, s, "%u bits: special values", s->bits);
    }
    test_add(&list, slopes, NULL, "slopes of the sums");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("gelu_code", &list);
}
