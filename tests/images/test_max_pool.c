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
    bool ceil;
} shape;

/* ResNet's window first; then others with every border, gaps between windows, windows that share
 * pixels, and the most taps that 4 bits hold. */
static const shape shapes[] = {
    {{3, 3}, {2, 2}, {1, 1}, {8, 8}, 2, 64, 0}, {{3, 3}, {2, 2}, {1, 1}, {7, 9}, 3, 17, 2},
    {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 2, 5, 0}, {{3, 3}, {2, 2}, {1, 1}, {33, 40}, 2, 20, 1},
    {{2, 2}, {0, 0}, {0, 0}, {6, 5}, 2, 16, 0}, {{3, 2}, {1, 2}, {1, 0}, {5, 7}, 1, 3, 1},
    {{2, 3}, {3, 4}, {1, 1}, {11, 13}, 2, 33, 0}, {{4, 4}, {1, 1}, {2, 2}, {6, 6}, 1, 15, 0},
    {{1, 16}, {1, 3}, {0, 8}, {2, 40}, 1, 4, 3}, {{16, 1}, {2, 1}, {3, 0}, {30, 2}, 1, 8, 0},
    {{1, 1}, {2, 2}, {0, 0}, {5, 5}, 2, 100, 0}, {{3, 3}, {2, 2}, {1, 1}, {5, 5}, 2, 530, 1},
    {{3, 3}, {2, 2}, {1, 1}, {4, 4}, 0, 8, 0}, {{3, 3}, {2, 2}, {1, 1}, {4, 4}, 2, 0, 0},
    {{3, 3}, {2, 2}, {0, 0}, {8, 13}, 2, 17, 1, .ceil = true}, /* one side has one window more */
    {{2, 3}, {3, 3}, {1, 0}, {5, 7}, 2, 16, 0, .ceil = true},  /* one would begin in the padding */
};

static const shape wide = {{5, 4}, {2, 2}, {2, 2}, {9, 8}, 1, 6, 0};

/* A shape with everything that follows from it. */
typedef struct problem {
    clprune_max_pool_desc desc, given; /* given: as the library gets it */
    clprune_extent image, output;
    size_t batch, cols, in, out; /* rows of x and of y */
    clprune_max_pool_sizes sizes;
} problem;

/* Windows along a side: those that end in the padding, or with `ceil` one more that begins in the
 * image. */
static size_t windows(size_t image, size_t kernel, size_t stride, size_t padding, bool ceil)
{
    size_t count = 0, begin = 0; /* in the padded image */
    for (; begin + kernel <= image + 2 * padding; begin += stride)
        count++;
    const bool whole = begin - stride + kernel == image + 2 * padding;
    return count + (ceil && !whole && begin < image + padding);
}

static problem problem_of(const shape *s)
{
    problem p = {.given = {s->kernel, s->stride, s->padding, s->ceil, {0}},
        .image = s->image,
        .batch = s->batch,
        .cols = s->cols};
    p.desc = p.given;
    if (s->stride.height == 0)
        p.desc.stride = s->kernel;
    p.output = clprune_max_pool_output(&p.given, s->image);
    assert_int_equal(p.output.height, windows(s->image.height, s->kernel.height,
                                          p.desc.stride.height, s->padding.height, s->ceil));
    assert_int_equal(p.output.width,
        windows(s->image.width, s->kernel.width, p.desc.stride.width, s->padding.width, s->ceil));
    p.in = s->batch * s->image.height * s->image.width;
    p.out = s->batch * p.output.height * p.output.width;
    TEST_OK(clprune_max_pool_size_query(p.out, s->cols, &p.sizes));
    assert_int_equal(p.sizes.rows, p.out);
    assert_int_equal(p.sizes.cols, (s->cols + 15) / 16 * 2);
    assert_int_equal(p.sizes.bytes, 4 * p.out * p.sizes.cols);
    return p;
}

/* Few different values, so that there are ties; zeros of both signs; NaN and infinities. */
static void few_values(const void *of, size_t count, float *x)
{
    (void)of;
    for (size_t i = 0; i < count; i++) {
        x[i] = roundf(x[i] * 4) / 4;
        if (i % 101 == 13)
            x[i] = NAN;
        if (i % 53 < 4)
            x[i] = i % 2 == 0 ? -INFINITY : INFINITY;
    }
}

LAYER_SIZE(size_x, shape, problem_of(s).in, s->cols, s->gap)
LAYER_SIZE(size_y, shape, problem_of(s).out, s->cols, s->gap)
LAYER_SIZE(size_positions, shape, problem_of(s).sizes.rows, problem_of(s).sizes.cols, s->gap)

/* The tap of each maximum of x; *y: the maxima. */
static unsigned *taps_of(const shape *s, const double *x, double *y)
{
    const problem p = problem_of(s);
    unsigned *taps = test_alloc(p.out * p.cols * sizeof *taps);
    max_pool_ref_forward(&p.desc, p.batch, p.image, p.output, p.cols, x, y, taps);
    return taps;
}

static clprune_status call_forward(const layer_call *c)
{
    const problem p = problem_of(c->shape);
    return clprune_max_pool_forward(
        c->context, &p.given, p.batch, p.image, c->m[0], c->m[1], c->m[2], c->event);
}

/* Eight positions in a word, and 0 behind a row. */
static void ref_forward(const layer_data *d)
{
    const unsigned *taps = taps_of(d->shape, d[0].in, d[1].want);
    for (size_t i = 0; d[2].want != NULL && i < d[1].count; i++) {
        const size_t c = i % d[1].cols;
        d[2].want[i / d[1].cols * d[2].cols + c / 8] += ldexp(taps[i], (int)(c % 8 * 4));
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, size_x, .change = few_values}, {"y", LAYER_OUT, size_y},
        {"positions", LAYER_OUT | LAYER_OPTIONAL | LAYER_BITS, size_positions}},
    call_forward, ref_forward, NULL};

/* A kernel of more taps than 4 bits hold still serves inference. */
static const layer_case inference = {"inference",
    {{"x", LAYER_IN, size_x, .change = few_values}, {"y", LAYER_OUT, size_y}}, call_forward,
    ref_forward, NULL};

/* Of a forward pass, whose positions are between both. */
static clprune_status call_backward(const layer_call *c)
{
    const problem p = problem_of(c->shape);
    const clprune_mat *m = c->m;
    test_mat y = test_mat_make(p.out, p.cols, 0, NULL);
    TEST_OK(
        clprune_max_pool_forward(c->context, &p.given, p.batch, p.image, m[0], y.mat, m[2], NULL));
    return clprune_max_pool_backward(
        c->context, &p.given, p.batch, p.image, m[1], m[2], m[3], c->event);
}

static void ref_backward(const layer_data *d)
{
    const problem p = problem_of(d->shape);
    const unsigned *taps = taps_of(d->shape, d[0].in, test_doubles(d[1].count));
    max_pool_ref_backward(
        &p.desc, p.batch, p.image, p.output, p.cols, d[1].in, taps, d[3].want, d[3].bound);
    for (size_t i = 0; i < d[3].count; i++)
        layer_set(&d[3], i, d[3].want[i], 16, d[3].bound[i]);
}

static const layer_case backward = {"backward",
    {{"x", LAYER_IN, size_x, .change = few_values}, {"dy", LAYER_IN, size_y},
        {"positions", LAYER_OUT | LAYER_SCRATCH, size_positions}, {"dx", LAYER_OUT, size_x}},
    call_backward, ref_backward, NULL};

/* max(bn(x), 0) in the same pass: the bits of batch norm with ReLU, then pooling; and of its
 * gradient and ReLU's. */
static void normalised(void **state)
{
    const shape *s = *state;
    const problem p = problem_of(s);
    clprune_context *context = test_context();
    const size_t in = p.in * p.cols, cols = p.cols, words = p.sizes.cols;
    float *x = test_new_normal(86, in), *dy = test_new_normal(87, p.out * cols);
    float *channels = test_new_normal(88, 4 * cols);
    few_values(s, in, x);
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
    test_mat_set(&positions[0], test_mat_get(&positions[0], "positions"));
    TEST_OK(clprune_max_pool_backward(
        context, &p.given, p.batch, p.image, mdy.mat, positions[0].mat, dz[0].mat, NULL));
    test_mat_unchanged(&positions[0], "positions");
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
    TEST_UNCHANGED(&mx, &bn_mats);
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
    const clprune_max_pool_desc desc = {.kernel = {3, 3}};
    const clprune_extent image = {3, 3};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const float dy = NAN;
        test_mat x = test_mat_make(9, 1, 0, cases[i].x), y = test_mat_make(1, 1, 0, NULL);
        test_mat positions = test_mat_make(1, 2, 0, NULL), d = test_mat_make(1, 1, 0, &dy);
        TEST_OK(clprune_max_pool_forward(
            test_context(), &desc, 1, image, x.mat, y.mat, positions.mat, NULL));
        const float *packed = test_mat_get(&positions, "positions");
        assert_int_equal(*(const unsigned char *)packed & 15, cases[i].tap);
        float *got = test_mat_get(&y, "y");
        const float want = cases[i].x[cases[i].tap];
        assert_true(isnan(want) ? isnan(got[0]) : got[0] == want);
        TEST_OK(clprune_max_pool_backward(
            test_context(), &desc, 1, image, d.mat, positions.mat, x.mat, NULL));
        float *dx = test_mat_get(&x, "dx");
        for (unsigned k = 0; k < 9; k++)
            assert_true(k == cases[i].tap ? isnan(dx[k]) : dx[k] == 0.0f);
    }
}

static void slopes(NO_ROW)
{
    static const shape s = {{3, 3}, {2, 2}, {1, 1}, {7, 7}, 1, 18, 0};
    layer_case plain = forward;
    plain.operands[0].change = NULL;
    plain.call = NULL; /* no step of the device is small enough between the maxima */
    layer_slopes_of(&plain, &backward, &s, (layer_steps){1e-6, 1e-5, 0, 0, 1e-5});
}

/* Windows and images; test_invalid_many.c has the matrices. */
static void invalid(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_max_pool_desc good = {{3, 3}, {2, 2}, {1, 1}, false, {0}};
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
    } refused[] = {{{{0, 3}, {2, 2}, {0, 1}, false, {0}}, {4, 6}, "kernel is 0 x 3"},
        {{{3, 3}, {0, 2}, {1, 1}, false, {0}}, {4, 6}, "stride is 0 x 2"},
        {{{3, 3}, {2, 2}, {1, 2}, false, {0}}, {4, 6}, "padding is 1 x 2"},
        {{{3, 3}, {2, 2}, {1, 1}, false, {0}}, {0, 6}, "image is 0 x 6"},
        {{{7, 3}, {2, 2}, {1, 1}, false, {0}}, {4, 6}, "larger than the padded image"},
        {{{3, 3}, {2, 2}, {1, 1}, false, {0, 1}}, {4, 6}, "reserved"},
        {{{3, 6}, {2, 1}, {1, 0}, false, {0}}, {4, 6}, "at most 16 taps"},
        {{{SIZE_MAX, 1}, {2, 2}, {SIZE_MAX / 2, 0}, false, {0}}, {4, 6}, "larger than"}};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        const clprune_max_pool_desc *d = &refused[i].desc;
        TEST_FAILS(FORWARD(context, d, 2, refused[i].image, x, y, p), bad, refused[i].text);
        TEST_FAILS(BACKWARD(context, d, 2, refused[i].image, y, p, x), bad, refused[i].text);
        const bool whole = i == 6; /* without positions; otherwise there is no output */
        assert_int_equal(clprune_max_pool_output(d, refused[i].image).height > 0, whole);
        if (!whole)
            test_says(clprune_last_error(NULL), refused[i].text);
    }
    assert_int_equal(clprune_max_pool_output(NULL, image).height, 0);
    test_says(clprune_last_error(NULL), "desc is NULL");
    const clprune_extent far = {(size_t)1 << 40, 6};
    TEST_FAILS(FORWARD(context, &good, 2, far, x, y, p), CLPRUNE_SIZE_OVERFLOW, "more than");
    assert_int_equal(clprune_max_pool_output(&good, far).height, 0);
    test_says(clprune_last_error(NULL), "more than");
    TEST_FAILS(FORWARD(context, &good, SIZE_MAX, image, x, y, p), CLPRUNE_SIZE_OVERFLOW, "images");
    TEST_FAILS(FORWARD(context, NULL, 2, image, x, y, p), bad, "desc is NULL");
    TEST_FAILS(BACKWARD(context, NULL, 2, image, y, p, x), bad, "desc is NULL");
#define NORM_FORWARD(...) clprune_max_pool_norm_forward(__VA_ARGS__, &event)
    const clprune_mat channel = {mx.mat.buffer, mx.mat.offset, 1, 6, 6};
    const clprune_batch_norm bn = {channel, channel, channel, channel};
    const clprune_max_pool_desc taps16 = {{4, 4}, {2, 2}, {1, 1}, false, {0}};
    TEST_FAILS(NORM_FORWARD(context, &good, NULL, 2, image, x, y, p), bad, "bn is NULL");
    TEST_FAILS(NORM_FORWARD(context, &taps16, &bn, 2, image, x, y, p), bad, "at most 15 taps");
    assert_null(event);
    TEST_UNCHANGED(&mx, &my, &mp);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i];
        const char *name =
            test_text("%zu x %zu, stride %zu, padding %zu, %zu of %zu x %zu x %zu + %zu",
                s->kernel.height, s->kernel.width, s->stride.height, s->padding.height, s->batch,
                s->image.height, s->image.width, s->cols, s->gap);
        layer_add_one(&list, &forward, s, "%s", name);
        layer_add_one(&list, &backward, s, "%s", name);
        if (s->kernel.height * s->kernel.width < 16)
            test_add(&list, normalised, s, "normalised, %s", name);
    }
    layer_add_one(&list, &inference, &wide, "with a kernel of 20 taps");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("max_pool", &list);
}
