/* Max pooling: values, positions and gradients over windows x images x channels; ties, NaN and
 * infinities; derivatives, invalid arguments.
 *
 * Windows overlap, leave gaps or reach over the border. With batch norm and ReLU in the same pass,
 * the bits are those of the three passes. */
#include "ref/max_pool_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    clprune_extent kernel, stride, padding, image;
    size_t batch, cols, gap;
} shape;

/* ResNet's window first; then others with every border, gaps between windows, windows that share
 * pixels, and the most taps that 4 bits hold. */
static const shape shapes[] = {
    {{3, 3}, {2, 2}, {1, 1}, {8, 8}, 2, 64, 0},
    {{3, 3}, {2, 2}, {1, 1}, {7, 9}, 3, 17, 2},
    {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 2, 5, 0},
    {{3, 3}, {2, 2}, {1, 1}, {33, 40}, 2, 20, 1},
    {{2, 2}, {0, 0}, {0, 0}, {6, 5}, 2, 16, 0},
    {{3, 2}, {1, 2}, {1, 0}, {5, 7}, 1, 3, 1},
    {{2, 3}, {3, 4}, {1, 1}, {11, 13}, 2, 33, 0},
    {{4, 4}, {1, 1}, {2, 2}, {6, 6}, 1, 15, 0},
    {{1, 16}, {1, 3}, {0, 8}, {2, 40}, 1, 4, 3},
    {{16, 1}, {2, 1}, {3, 0}, {30, 2}, 1, 8, 0},
    {{1, 1}, {2, 2}, {0, 0}, {5, 5}, 2, 100, 0},
    {{3, 3}, {2, 2}, {1, 1}, {5, 5}, 2, 530, 1},
    {{3, 3}, {2, 2}, {1, 1}, {4, 4}, 0, 8, 0},
    {{3, 3}, {2, 2}, {1, 1}, {4, 4}, 2, 0, 0},
};

/* A shape with everything that follows from it. */
typedef struct problem {
    clprune_max_pool_desc desc, given; /* given: as the library gets it */
    clprune_extent image, output;
    size_t batch, cols, in, out; /* rows of x and of y */
    clprune_max_pool_sizes sizes;
} problem;

static problem problem_of(const shape *s)
{
    problem p = {.given = {s->kernel, s->stride, s->padding, {0}},
        .image = s->image,
        .batch = s->batch,
        .cols = s->cols};
    p.desc = p.given;
    if (s->stride.height == 0)
        p.desc.stride = s->kernel;
    p.output = clprune_max_pool_output(&p.given, s->image);
    assert_int_equal(p.output.height,
        (s->image.height + 2 * s->padding.height - s->kernel.height) / p.desc.stride.height + 1);
    assert_int_equal(p.output.width,
        (s->image.width + 2 * s->padding.width - s->kernel.width) / p.desc.stride.width + 1);
    p.in = s->batch * s->image.height * s->image.width;
    p.out = s->batch * p.output.height * p.output.width;
    TEST_OK(clprune_max_pool_size_query(p.out, s->cols, &p.sizes));
    assert_int_equal(p.sizes.rows, p.out);
    assert_int_equal(p.sizes.cols, (s->cols + 15) / 16 * 2);
    assert_int_equal(p.sizes.bytes, 4 * p.out * p.sizes.cols);
    return p;
}

/* Each position is `want`, and those behind a row are 0. */
static void check_positions(const test_mat *positions, size_t cols, const unsigned *want)
{
    const size_t words = positions->mat.cols;
    float *packed = test_mat_get(positions, "positions");
    for (size_t r = 0; r < positions->mat.rows; r++) {
        const unsigned char *row = (const unsigned char *)(packed + r * words);
        for (size_t c = 0; c < words * 8; c++) {
            const unsigned tap = (unsigned)row[c / 2] >> c % 2 * 4 & 15u;
            if (tap != (c < cols ? want[r * cols + c] : 0))
                fail_msg("row %zu, position %zu is %u", r, c, tap);
        }
    }
}

/* Few different values, so that there are ties; zeros of both signs; NaN and infinities. */
static float *new_inputs(uint64_t seed, size_t count)
{
    float *x = test_new_normal(seed, count);
    for (size_t i = 0; i < count; i++) {
        x[i] = roundf(x[i] * 4) / 4;
        if (i % 101 == 13)
            x[i] = NAN;
        if (i % 53 < 4)
            x[i] = i % 2 == 0 ? -INFINITY : INFINITY;
    }
    return x;
}

/* Forward and backward against the reference, y and positions exactly. */
static void values(void **state)
{
    const shape *s = *state;
    const problem p = problem_of(s);
    clprune_context *context = test_context();
    const size_t in = p.in * p.cols, out = p.out * p.cols;
    float *x = new_inputs(81, in), *dy = test_new_normal(82, out);
    double *wide_x = layer_widen(in, x), *wide_dy = layer_widen(out, dy);
    double *y_want = layer_new(out), *exact = layer_new(out);
    double *dx_want = layer_new(in), *bound = layer_new(in);
    unsigned *taps = test_alloc(out * sizeof *taps);
    max_pool_ref_forward(&p.desc, p.batch, p.image, p.output, p.cols, wide_x, y_want, taps);
    max_pool_ref_backward(
        &p.desc, p.batch, p.image, p.output, p.cols, wide_dy, taps, dx_want, bound);
    for (size_t i = 0; i < in; i++)
        bound[i] = test_bound(16, bound[i], dx_want[i]);
    test_mat mx = test_mat_make(p.in, p.cols, s->gap, x);
    test_mat my = test_mat_make(p.out, p.cols, s->gap + 1, NULL);
    test_mat my2 = test_mat_make(p.out, p.cols, 0, NULL);
    test_mat mdy = test_mat_make(p.out, p.cols, s->gap + 2, dy);
    test_mat mdx = test_mat_make(p.in, p.cols, s->gap, NULL);
    test_mat positions = test_mat_make(p.out, p.sizes.cols, s->gap, NULL);
    TEST_EVENT(clprune_max_pool_forward(
        context, &p.given, p.batch, p.image, mx.mat, my.mat, positions.mat, &event));
    layer_check("y", &my, y_want, exact, "forward");
    check_positions(&positions, p.cols, taps);
    TEST_OK(clprune_max_pool_forward(
        context, &p.given, p.batch, p.image, mx.mat, my2.mat, CLPRUNE_NO_MAT, NULL));
    layer_same("y without positions", &my, &my2);
    test_mat_unchanged(&mx, "x");
    float *packed = test_mat_get(&positions, "positions");
    test_mat_set(&positions, packed);
    TEST_EVENT(clprune_max_pool_backward(
        context, &p.given, p.batch, p.image, mdy.mat, positions.mat, mdx.mat, &event));
    layer_check("dx", &mdx, dx_want, bound, "backward");
    test_mat_unchanged(&mdy, "dy");
    test_mat_unchanged(&positions, "positions");
}

/* max(bn(x), 0) in the same pass: the bits of batch norm with ReLU, then pooling; and of its
 * gradient and ReLU's. */
static void normalised(void **state)
{
    const shape *s = *state;
    const problem p = problem_of(s);
    clprune_context *context = test_context();
    const size_t in = p.in * p.cols, cols = p.cols, words = p.sizes.cols;
    float *x = new_inputs(86, in), *dy = test_new_normal(87, p.out * cols);
    float *channels = test_new_normal(88, 4 * cols);
    for (size_t i = 0; i < in; i++)
        x[i] = isinf(x[i]) ? 0.0f : x[i];
    test_mat mx = test_mat_make(p.in, cols, s->gap, x), dz[2];
    test_mat bn_mats = test_mat_make(4, cols, 0, channels),
             relu = test_mat_make(p.in, cols, 0, NULL);
    test_mat my[2], positions[2], mdy = test_mat_make(p.out, cols, 0, dy);
    for (int i = 0; i < 2; i++) {
        my[i] = test_mat_make(p.out, cols, (size_t)i, NULL);
        positions[i] = test_mat_make(p.out, words, s->gap, NULL);
        dz[i] = test_mat_make(p.in, cols, (size_t)i, NULL);
    }
    clprune_mat rows[4];
    for (size_t i = 0; i < 4; i++)
        rows[i] = clprune_mat_rows(bn_mats.mat, i, 1);
    const clprune_batch_norm bn = {rows[0], rows[1], rows[2], rows[3]};
    const clprune_mat none = CLPRUNE_NO_MAT;
    TEST_EVENT(clprune_max_pool_norm_forward(
        context, &p.given, &bn, p.batch, p.image, mx.mat, my[0].mat, positions[0].mat, &event));
    TEST_OK(clprune_max_pool_backward(
        context, &p.given, p.batch, p.image, mdy.mat, positions[0].mat, dz[0].mat, NULL));
    TEST_OK(clprune_batch_norm_forward(context, &bn, true, mx.mat, none, relu.mat, none, NULL));
    TEST_OK(clprune_max_pool_forward(
        context, &p.given, p.batch, p.image, relu.mat, my[1].mat, positions[1].mat, NULL));
    layer_same("y", &my[0], &my[1]);
    TEST_OK(clprune_max_pool_backward(
        context, &p.given, p.batch, p.image, mdy.mat, positions[1].mat, dz[1].mat, NULL));
    float *got = test_mat_get(&dz[0], "dz"), *drelu = test_mat_get(&dz[1], "the gradient of relu");
    float *passed = test_mat_get(&relu, "relu");
    for (size_t i = 0; i < in; i++)
        if (got[i] != (passed[i] > 0 || isnan(passed[i]) ? drelu[i] : 0))
            fail_msg("dz %zu is %g, of %g behind a relu of %g", i, (double)got[i], (double)drelu[i],
                (double)passed[i]);
    TEST_OK(clprune_max_pool_norm_forward(
        context, &p.given, &bn, p.batch, p.image, mx.mat, my[0].mat, none, NULL));
    layer_same("y without positions", &my[0], &my[1]);
    test_mat_unchanged(&mx, "x");
    test_mat_unchanged(&bn_mats, "bn");
}

/* One window of 3 x 3: the rules for equal maxima, NaN and infinities, and a dy of NaN, which
 * reaches its own pixel only. */
static void special_values(NO_ROW)
{
    const float inf = INFINITY, nan_ = NAN;
    const struct {
        float x[9];
        unsigned tap;
    } cases[] = {{{1, 2, 3, 3, 2, 1, 3, 0, 0}, 2},
        {{-inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf}, 0},
        {{0, nan_, 9, 1, nan_, 8, inf, 2, 3}, 4}, {{-0.0f, 0.0f, -1, 0, 0, 0, 0, 0, 0}, 0},
        {{1, inf, nan_, inf, 1, 1, 1, 1, 1}, 2}, {{-inf, -3, inf, inf, 2, 2, 2, 2, 2}, 2}};
    clprune_context *context = test_context();
    const clprune_max_pool_desc desc = {.kernel = {3, 3}};
    const clprune_extent image = {3, 3};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const float dy = NAN;
        test_mat x = test_mat_make(9, 1, 0, cases[i].x), y = test_mat_make(1, 1, 0, NULL);
        test_mat positions = test_mat_make(1, 2, 0, NULL), d = test_mat_make(1, 1, 0, &dy);
        TEST_OK(
            clprune_max_pool_forward(context, &desc, 1, image, x.mat, y.mat, positions.mat, NULL));
        check_positions(&positions, 1, &cases[i].tap);
        float *got = test_mat_get(&y, "y");
        const float want = cases[i].x[cases[i].tap];
        assert_true(isnan(want) ? isnan(got[0]) : got[0] == want);
        TEST_OK(
            clprune_max_pool_backward(context, &desc, 1, image, d.mat, positions.mat, x.mat, NULL));
        float *dx = test_mat_get(&x, "dx");
        for (unsigned k = 0; k < 9; k++)
            assert_true(k == cases[i].tap ? isnan(dx[k]) : dx[k] == 0.0f);
    }
}

/* A kernel of more taps than 4 bits hold still serves inference. */
static void wide_kernel(NO_ROW)
{
    const problem p = {.desc = {{5, 4}, {2, 2}, {2, 2}, {0}}, .image = {9, 8}, .cols = 6};
    const clprune_extent output = clprune_max_pool_output(&p.desc, p.image);
    const size_t out = output.height * output.width;
    float *x = test_new_normal(83, 72 * 6);
    double *wide = layer_widen(72 * 6, x), *want = layer_new(out * 6), *exact = layer_new(out * 6);
    unsigned *taps = test_alloc(out * 6 * sizeof *taps);
    max_pool_ref_forward(&p.desc, 1, p.image, output, 6, wide, want, taps);
    test_mat mx = test_mat_make(72, 6, 0, x), my = test_mat_make(out, 6, 0, NULL);
    TEST_OK(clprune_max_pool_forward(
        test_context(), &p.desc, 1, p.image, mx.mat, my.mat, CLPRUNE_NO_MAT, NULL));
    layer_check("y", &my, want, exact, "5 x 4");
}

enum { SIDE = 7, COLS = 18, COUNT = SIDE * SIDE * COLS, OUT_COUNT = 4 * 4 * COLS };
static const clprune_max_pool_desc slope_desc = {{3, 3}, {2, 2}, {1, 1}, {0}};
static const clprune_extent slope_image = {SIDE, SIDE}, slope_output = {4, 4};

/* sum dy * y */
static double loss(void *user, const double *x)
{
    const float *dy = user;
    double y[OUT_COUNT], total = 0;
    unsigned taps[OUT_COUNT];
    max_pool_ref_forward(&slope_desc, 1, slope_image, slope_output, COLS, x, y, taps);
    for (size_t i = 0; i < OUT_COUNT; i++)
        total += (double)dy[i] * y[i];
    return total;
}

static void slopes(NO_ROW)
{
    clprune_context *context = test_context();
    float *x = test_new_normal(84, COUNT), *dy = test_new_normal(85, OUT_COUNT);
    double *wide = layer_widen(COUNT, x);
    test_mat mx = test_mat_make(SIDE * SIDE, COLS, 0, x), my = test_mat_make(16, COLS, 0, NULL);
    test_mat mdy = test_mat_make(16, COLS, 0, dy), positions = test_mat_make(16, 4, 0, NULL);
    TEST_OK(clprune_max_pool_forward(
        context, &slope_desc, 1, slope_image, mx.mat, my.mat, positions.mat, NULL));
    TEST_OK(clprune_max_pool_backward(
        context, &slope_desc, 1, slope_image, mdy.mat, positions.mat, mx.mat, NULL));
    float *dx = test_mat_get(&mx, "dx");
    double *grad = layer_widen(COUNT, dx);
    layer_slopes("x", loss, dy, COUNT, wide, grad, 1e-6, 1e-5);
}

/* Windows and images; test_invalid_many.c has the matrices. */
static void invalid(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_max_pool_desc good = {{3, 3}, {2, 2}, {1, 1}, {0}};
    const clprune_extent image = {4, 6};
    test_mat mx = test_mat_make(48, 6, 0, NULL), my = test_mat_make(12, 6, 0, NULL);
    test_mat mp = test_mat_make(12, 2, 0, NULL);
    const clprune_mat x = mx.mat, y = my.mat, p = mp.mat;
    cl_event event = NULL;
#define FORWARD(...)  clprune_max_pool_forward(__VA_ARGS__, &event)
#define BACKWARD(...) clprune_max_pool_backward(__VA_ARGS__, &event)
    const struct {
        clprune_max_pool_desc desc;
        clprune_extent image;
        const char *text;
    } refused[] = {{{{0, 3}, {2, 2}, {0, 1}, {0}}, {4, 6}, "kernel is 0 x 3"},
        {{{3, 3}, {0, 2}, {1, 1}, {0}}, {4, 6}, "stride is 0 x 2"},
        {{{3, 3}, {2, 2}, {1, 2}, {0}}, {4, 6}, "padding is 1 x 2"},
        {{{3, 3}, {2, 2}, {1, 1}, {0}}, {0, 6}, "image is 0 x 6"},
        {{{7, 3}, {2, 2}, {1, 1}, {0}}, {4, 6}, "larger than the padded image"},
        {{{3, 3}, {2, 2}, {1, 1}, {0, 1}}, {4, 6}, "reserved"},
        {{{3, 6}, {2, 1}, {1, 0}, {0}}, {4, 6}, "at most 16 taps"},
        {{{SIZE_MAX, 1}, {2, 2}, {SIZE_MAX / 2, 0}, {0}}, {4, 6}, "larger than"}};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        const clprune_max_pool_desc *d = &refused[i].desc;
        TEST_FAILS(FORWARD(context, d, 2, refused[i].image, x, y, p), bad, refused[i].text);
        TEST_FAILS(BACKWARD(context, d, 2, refused[i].image, y, p, x), bad, refused[i].text);
        const bool whole = i == 6; /* without positions; otherwise there is no output */
        assert_int_equal(clprune_max_pool_output(d, refused[i].image).height > 0, whole);
        if (!whole)
            assert_non_null(strstr(clprune_last_error(NULL), refused[i].text));
    }
    assert_int_equal(clprune_max_pool_output(NULL, image).height, 0);
    assert_non_null(strstr(clprune_last_error(NULL), "desc is NULL"));
    const clprune_extent far = {(size_t)1 << 40, 6};
    TEST_FAILS(FORWARD(context, &good, 2, far, x, y, p), CLPRUNE_SIZE_OVERFLOW, "more than");
    assert_int_equal(clprune_max_pool_output(&good, far).height, 0);
    assert_non_null(strstr(clprune_last_error(NULL), "more than"));
    TEST_FAILS(FORWARD(context, &good, SIZE_MAX, image, x, y, p), CLPRUNE_SIZE_OVERFLOW, "images");
    TEST_FAILS(FORWARD(context, NULL, 2, image, x, y, p), bad, "desc is NULL");
    TEST_FAILS(BACKWARD(context, NULL, 2, image, y, p, x), bad, "desc is NULL");
#define NORM_FORWARD(...) clprune_max_pool_norm_forward(__VA_ARGS__, &event)
    const clprune_mat channel = {mx.mat.buffer, mx.mat.offset, 1, 6, 6};
    const clprune_batch_norm bn = {channel, channel, channel, channel};
    const clprune_max_pool_desc taps16 = {{4, 4}, {2, 2}, {1, 1}, {0}};
    TEST_FAILS(NORM_FORWARD(context, &good, NULL, 2, image, x, y, p), bad, "bn is NULL");
    TEST_FAILS(NORM_FORWARD(context, &taps16, &bn, 2, image, x, y, p), bad, "at most 15 taps");
    assert_null(event);
    test_mat *mats[] = {&mx, &my, &mp};
    for (size_t i = 0; i < COUNT_OF(mats); i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i];
        test_add(&list, values, s,
            "%zu x %zu, stride %zu, padding %zu, %zu of %zu x %zu x %zu + %zu", s->kernel.height,
            s->kernel.width, s->stride.height, s->padding.height, s->batch, s->image.height,
            s->image.width, s->cols, s->gap);
        if (s->kernel.height * s->kernel.width < 16)
            test_add(&list, normalised, s, "normalised, %zu x %zu of %zu x %zu x %zu",
                s->kernel.height, s->kernel.width, s->image.height, s->image.width, s->cols);
    }
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, wide_kernel, NULL, "kernel of 20 taps");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("max_pool", &list);
}
