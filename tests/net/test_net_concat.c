/* What layers that copy or add up give: values in one, parts of a value, permuted axes, images
 * by matrices, elements in any places. (That their gradients belong to it is a matter of
 * test_net_random.) */
#include "net/net_models.h"

enum { BATCH = 3, ROWS = 4, COLS = 6, MOST = 2 * ROWS * COLS };

static const clprune_permute_desc shuffle = {3, {ROWS, 2, COLS / 2}, {0, 2, 1}},
                                  as_it_is = {1, {ROWS * COLS}, {0}};

static clprune_net_value twice(clprune_net *net, clprune_net_value x)
{
    return clprune_net_scale(net, "twice", x, 2);
}

#define VALUE(name, ...)                                                                           \
    static clprune_net_value name(clprune_net *net, clprune_net_value x)                           \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }
VALUE(join_features, clprune_net_concat(net, "y", x, twice(net, x), CLPRUNE_AXIS_FEATURES))
VALUE(join_rows, clprune_net_concat(net, "y", x, twice(net, x), CLPRUNE_AXIS_ROWS))
VALUE(some_features, clprune_net_slice(net, "y", x, CLPRUNE_AXIS_FEATURES, 2, 3))
VALUE(some_rows, clprune_net_slice(net, "y", x, CLPRUNE_AXIS_ROWS, 1, 2))
VALUE(shuffled, clprune_net_permute(net, "y", x, &shuffle, COLS, (clprune_extent){0, 0}))
VALUE(
    reshaped, clprune_net_permute(net, "y", x, &as_it_is, 2 * COLS, (clprune_extent){1, ROWS / 2}))

/* Element (r, c) of y, of a sample x. */
static float joined_features(const float *x, size_t r, size_t c)
{
    return c < COLS ? x[r * COLS + c] : 2 * x[r * COLS + c - COLS];
}
static float joined_rows(const float *x, size_t r, size_t c)
{
    return r < ROWS ? x[r * COLS + c] : 2 * x[(r - ROWS) * COLS + c];
}
static float of_features(const float *x, size_t r, size_t c)
{
    return x[r * COLS + c + 2];
}
static float of_rows(const float *x, size_t r, size_t c)
{
    return x[(r + 1) * COLS + c];
}
static float of_all(const float *x, size_t r, size_t c)
{
    return x[r * 2 * COLS + c];
}
static float of_parts(const float *x, size_t r, size_t c)
{
    return x[r * COLS + c % 2 * (COLS / 2) + c / 2];
}

/* 2 x 2 pixels of 6 features become 3 x 1: twice the sum of a column, nothing, the other pixel of
 * it. */
static clprune_net_value resampled(clprune_net *net, clprune_net_value x)
{
    const clprune_net_axis tall = {
        3, (const uint32_t[]){0, 2, 2, 3}, (const uint32_t[]){0, 1, 1}, (const float[]){2, 2, 1}};
    const clprune_net_axis wide = {
        1, (const uint32_t[]){0, 1}, (const uint32_t[]){0}, (const float[]){1}};
    return clprune_net_resample(net, "y", x, &tall, &wide);
}
static float of_pixels(const float *x, size_t r, size_t c)
{
    const float top = x[c], below = x[2 * COLS + c];
    return r == 0 ? 2 * top + 2 * below : r == 1 ? 0 : below;
}

/* Rows in another order, one of them twice, one nowhere: places of a whole row. And single
 * elements. */
#define NONE CLPRUNE_NET_NOWHERE
static const uint32_t lines[] = {18, 19, 20, 21, 22, 23, NONE, NONE, NONE, NONE, NONE, NONE, 0, 1,
    2, 3, 4, 5, 18, 19, 20, 21, 22, 23, 6, 7, 8, 9, 10, 11},
                      singles[] = {23, NONE, 3, 3, 0, 1};
VALUE(
    gathered_lines, clprune_net_gather(net, "y", x, &(clprune_net_places){5, COLS, {0, 0}, lines}))
VALUE(gathered, clprune_net_gather(net, "y", x, &(clprune_net_places){2, 3, {0, 0}, singles}))
static float of_place(const float *x, uint32_t place)
{
    return place == NONE ? 0 : x[place];
}
static float of_lines(const float *x, size_t r, size_t c)
{
    return of_place(x, lines[r * COLS + c]);
}
static float of_singles(const float *x, size_t r, size_t c)
{
    return of_place(x, singles[r * 3 + c]);
}

typedef struct row {
    const char *name;
    clprune_net_value (*add)(clprune_net *net, clprune_net_value x);
    float (*want)(const float *x, size_t r, size_t c);
    size_t rows, cols; /* of y */
} row;

static const row rows[] = {{"features in one", join_features, joined_features, ROWS, 2 * COLS},
    {"rows in one", join_rows, joined_rows, 2 * ROWS, COLS},
    {"some features", some_features, of_features, ROWS, 3},
    {"some rows", some_rows, of_rows, 2, COLS}, {"shuffled", shuffled, of_parts, ROWS, COLS},
    {"reshaped", reshaped, of_all, ROWS / 2, 2 * COLS},
    {"resampled", resampled, of_pixels, 3, COLS},
    {"gathered rows", gathered_lines, of_lines, 5, COLS},
    {"gathered elements", gathered, of_singles, 2, 3}};

TEST_UNDO(destroy_net, clprune_net_destroy(what))

static void values(void **state)
{
    const row *r = *state;
    const float *x = test_new_normal(1, BATCH * ROWS * COLS);
    clprune_net *net;
    TEST_OK(clprune_net_create(
        test_context(), &(clprune_net_desc){.batch = BATCH, .infers = true}, &net));
    test_later(destroy_net, test_context(), net);
    clprune_net_value y = clprune_net_linear(net, "in", clprune_net_pixels(net, COLS, 2, 2), COLS);
    (void)r->add(net, y);
    TEST_OK(clprune_net_settle(net, NULL));
    clprune_net_weight weight; /* the identity: y is made of what a layer has made */
    for (size_t i = 0; clprune_net_weight_at(net, i, &weight); i++) {
        float *identity = test_floats(COLS * COLS);
        for (size_t k = 0; k < COLS * COLS; k++)
            identity[k] = i == 0 && k % (COLS + 1) == 0 ? 1.0f : 0.0f;
        TEST_OK(clprune_mat_write(test_context(), weight.value, identity));
    }
    const clprune_net_data data = {
        .batch = BATCH, .rows = test_new_mat_of(test_context(), "x", BATCH * ROWS, COLS, x)};
    TEST_OK(clprune_net_forward(net, &data, false));
    const clprune_mat out = clprune_net_output(net, BATCH);
    assert_int_equal(out.rows, BATCH * r->rows);
    assert_int_equal(out.cols, r->cols);
    float *got = test_floats(BATCH * MOST);
    TEST_OK(clprune_mat_read(test_context(), out, got));
    for (size_t i = 0; i < out.rows * out.cols; i++) {
        const size_t line = i / out.cols, sample = line / r->rows;
        const float want = r->want(x + sample * ROWS * COLS, line % r->rows, i % out.cols);
        if (got[i] != want)
            fail_msg("element %zu is %g, expected %g", i, (double)got[i], (double)want);
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, values, rows, "%s");
    return test_run_on_each_device("net_concat", &list);
}
