/* Rotary positions: both directions over samples, rows, heads and parts of these; they undo each
 * other; products depend on distances alone; angles of late rows. */
#include "clprune/rotary.h"

#include "support/test_layer.h"

typedef struct shape {
    size_t batch, rows, heads, head_cols, more, gap; /* more: columns that stay */
    float theta;
    size_t stay; /* of each head */
    bool adjacent;
} shape;

static const shape shapes[] = {{1, 1, 1, 2, 0, 0, 1e4f}, {2, 7, 1, 8, 0, 1, 1e4f},
    {3, 5, 2, 6, 3, 0, 1e4f}, {2, 9, 3, 32, 16, 2, 1e4f}, {1, 70, 2, 64, 64, 0, 5e5f},
    {2, 33, 5, 10, 0, 0, 100}, {4, 3, 2, 140, 1, 5, 1e4f}, {600, 2, 1, 4, 2, 0, 1e4f},
    {2, 3, 0, 8, 5, 0, 1e4f}, {2, 3, 4, 0, 5, 0, 1e4f}, {0, 3, 2, 4, 0, 0, 1e4f},
    {2, 0, 2, 4, 1, 0, 1e4f}, {1, 3, 1, 2, 0, 0, 1.0000001f}, {2, 9, 3, 32, 16, 2, 1e4f, 24},
    {3, 5, 2, 7, 0, 0, 100, 3}, {1, 40, 2, 80, 80, 0, 1e4f, 48}, {2, 3, 2, 4, 1, 1, 1e4f, 4},
    {2, 7, 3, 8, 5, 1, 1e4f, 0, true}, {3, 5, 2, 47, 0, 0, 100, 5, true},
    {1, 40, 2, 80, 80, 2, 1e4f, 48, true}};

LAYER_SIZE(size_all, shape, s->batch * s->rows, s->heads * s->head_cols + s->more, s->gap)

static double angle(const shape *s, size_t row, size_t pair)
{
    return (double)row *
           pow((double)s->theta, -2.0 * (double)pair / (double)(s->head_cols - s->stay));
}

static void turn(const layer_data *d, double sign)
{
    const shape *s = d->shape;
    const size_t turned = s->head_cols - s->stay, half = turned / 2;
    for (size_t i = 0; i < d[1].count; i++) {
        const size_t c = i % d->cols, q = i / d->cols % s->rows;
        const size_t in_head = s->head_cols > 0 ? c % s->head_cols : 0;
        if (c >= s->heads * s->head_cols || in_head >= turned) {
            d[1].want[i] = d[0].in[i];
            continue;
        }
        const bool second = s->adjacent ? in_head % 2 : in_head >= half;
        const size_t apart = s->adjacent ? 1 : half;
        const double t = sign * angle(s, q, s->adjacent ? in_head / 2 : in_head % half);
        const double own = d[0].in[i], other = d[0].in[second ? i - apart : i + apart];
        d[1].want[i] = own * cos(t) + (second ? other : -other) * sin(t);
        /* 2^-24 of a turn, sine and cosine, three roundings */
        d[1].bound[i] = (6.3 + 4 + 3) * 0x1p-24 * (fabs(own) + fabs(other));
    }
}

LAYER_CALL_OF(forward, shape,
    clprune_rotary_forward(c->context, s->batch, s->heads, s->head_cols, s->head_cols - s->stay,
        s->theta, s->adjacent, m[0], m[1], c->event))

static void ref_forward(const layer_data *d)
{
    turn(d, 1);
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, size_all}, {"y", LAYER_OUT, size_all, .over = 1 << 0}}, call_forward,
    ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_rotary_backward(c->context, s->batch, s->heads, s->head_cols, s->head_cols - s->stay,
        s->theta, s->adjacent, m[0], m[1], c->event))

static void ref_backward(const layer_data *d)
{
    turn(d, -1);
}

static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, size_all}, {"dx", LAYER_OUT, size_all, .over = 1 << 0}}, call_backward,
    ref_backward, NULL};

/* ---- other angles: what the table says ---------------------------------------------------------
 */

LAYER_SIZE(size_table, shape, s->rows, s->head_cols - s->stay, s->gap)

static void turn_by(const layer_data *d, double sign)
{
    const shape *s = d->shape;
    const size_t turned = s->head_cols - s->stay, half = turned / 2;
    for (size_t i = 0; i < d[2].count; i++) {
        const size_t c = i % d->cols, q = i / d->cols % s->rows;
        const size_t in_head = s->head_cols > 0 ? c % s->head_cols : 0;
        d[2].want[i] = d[0].in[i];
        if (c >= s->heads * s->head_cols || in_head >= turned)
            continue;
        const bool second = s->adjacent ? in_head % 2 : in_head >= half;
        const size_t apart = s->adjacent ? 1 : half;
        const double *t = d[1].in + q * turned + (s->adjacent ? in_head / 2 : in_head % half);
        const double own = d[0].in[i] * t[0];
        const double other = d[0].in[second ? i - apart : i + apart] * sign * t[half];
        d[2].want[i] = own + (second ? other : -other);
        d[2].bound[i] = 3 * 0x1p-24 * (fabs(own) + fabs(other));
    }
}

#define BY(name, back, sign)                                                                       \
    LAYER_CALL_OF(name, shape,                                                                     \
        clprune_rotary_by(c->context, s->batch, s->heads, s->head_cols, s->adjacent, back, m[1],   \
            m[0], m[2], c->event))                                                                 \
    static void ref_##name(const layer_data *d)                                                    \
    {                                                                                              \
        turn_by(d, sign);                                                                          \
    }                                                                                              \
    static const layer_case name = {#name,                                                         \
        {{"x", LAYER_IN, size_all}, {"table", LAYER_IN, size_table},                               \
            {"y", LAYER_OUT, size_all, .over = 1 << 0}},                                           \
        call_##name, ref_##name, NULL};
BY(by, false, 1)
BY(by_back, true, -1)

static void slopes(NO_ROW)
{
    static const shape few = {2, 5, 2, 6, 3, 0, 1e4f, 2, true};
    layer_slopes_of(&forward, &backward, &few, (layer_steps){1e-3, 1e-8, 1e-2, 1e-3, 1e-6});
}

/* Rows up to 100000: the product of two rows depends on their distance. */
static void late_rows(NO_ROW)
{
    enum { ROWS = 100001, COLS = 8, AT = 17 };
    float *values = test_floats(ROWS * COLS), one[COLS];
    test_rng rng = {51};
    for (size_t c = 0; c < COLS; c++)
        one[c] = test_rng_uniform(&rng, -1, 1);
    for (size_t i = 0; i < ROWS * COLS; i++)
        values[i] = one[i % COLS];
    test_mat x = test_mat_make(ROWS, COLS, 0, values);
    TEST_OK(
        clprune_rotary_forward(test_context(), 1, 1, COLS, COLS, 1e4f, false, x.mat, x.mat, NULL));
    const float *y = test_mat_get(&x, "x");
    double first = 0;
    for (size_t r = 0; r + AT < ROWS; r += 997) {
        double product = 0;
        for (size_t c = 0; c < COLS; c++)
            product += (double)y[r * COLS + c] * (double)y[(r + AT) * COLS + c];
        if (r == 0)
            first = product;
        assert_true(fabs(product - first) < 2e-6);
    }
    const double t = angle(&(shape){.theta = 1e4f, .head_cols = COLS}, ROWS - 1, 0);
    assert_true(fabs((double)y[(ROWS - 1) * COLS] - (double)one[0] * cos(t) +
                     (double)one[COLS / 2] * sin(t)) < 2e-6);
}

/* y over x, in a buffer and a sub-buffer of it. */
static void over_sub_buffer(NO_ROW)
{
    enum { ROWS = 6, COLS = 9, COUNT = ROWS * COLS };
    const float *values = test_new_normal(7, COUNT);
    const test_mat x = test_mat_make(ROWS, COLS, 0, values), y = test_mat_make(ROWS, COLS, 0, NULL);
    const test_buf both = test_buf_make(COUNT * sizeof(float), values);
    const clprune_mat whole = test_buf_alias(&both, ROWS, COLS);
    TEST_OK(clprune_rotary_forward(test_context(), 2, 2, 4, 4, 1e4f, false, x.mat, y.mat, NULL));
    TEST_OK(clprune_rotary_forward(test_context(), 2, 2, 4, 4, 1e4f, false, whole,
        clprune_mat_of(both.buffer, ROWS, COLS), NULL));
    test_same_floats(
        "y", ROWS, COLS, test_buf_get(&both, "y"), test_mat_get(&y, "y apart"), "a sub-buffer");
}

static void refused(NO_ROW)
{
    test_mat x = test_mat_make(6, 9, 0, NULL), y = test_mat_make(6, 9, 0, NULL);
    const struct {
        size_t batch, heads, head_cols, turned;
        float theta;
        clprune_status status;
        const char *text;
    } rows[] = {{2, 2, 4, 4, 1, CLPRUNE_INVALID_ARGUMENT, "theta is 1"},
        {2, 2, 4, 4, NAN, CLPRUNE_INVALID_ARGUMENT, "theta is nan"},
        {2, 2, 4, 4, INFINITY, CLPRUNE_INVALID_ARGUMENT, "theta is inf"},
        {2, 3, 3, 3, 1e4f, CLPRUNE_INVALID_SIZE, "turned is 3"},
        {2, 2, 4, 6, 1e4f, CLPRUNE_INVALID_SIZE, "at most the 4 columns"},
        {2, 3, 4, 4, 1e4f, CLPRUNE_INVALID_SIZE, "3 heads of 4"},
        {2, SIZE_MAX / 2, 4, 4, 1e4f, CLPRUNE_INVALID_SIZE, "heads of 4"},
        {4, 2, 4, 4, 1e4f, CLPRUNE_INVALID_SIZE, "rows of 4 samples"},
        {0, 2, 4, 4, 1e4f, CLPRUNE_INVALID_SIZE, "rows of 0 samples"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        TEST_FAILS(clprune_rotary_forward(test_context(), rows[i].batch, rows[i].heads,
                       rows[i].head_cols, rows[i].turned, rows[i].theta, false, x.mat, y.mat, NULL),
            rows[i].status, rows[i].text);
        TEST_FAILS(clprune_rotary_backward(test_context(), rows[i].batch, rows[i].heads,
                       rows[i].head_cols, rows[i].turned, rows[i].theta, false, x.mat, y.mat, NULL),
            rows[i].status, rows[i].text);
    }
    const struct {
        size_t rows, cols;
        clprune_status status;
        const char *text;
    } tables[] = {{3, 3, CLPRUNE_INVALID_SIZE, "the columns of table are 3"},
        {3, 6, CLPRUNE_INVALID_SIZE, "at most the 4 columns"},
        {2, 4, CLPRUNE_INVALID_SIZE, "table is 2 x 4, expected 3 x 4"},
        {0, 0, CLPRUNE_INVALID_ARGUMENT, "table is absent"}};
    for (size_t i = 0; i < COUNT_OF(tables); i++) {
        test_mat table = test_mat_make(tables[i].rows, tables[i].cols, 0, NULL);
        TEST_FAILS(clprune_rotary_by(test_context(), 2, 2, 4, false, false,
                       tables[i].rows > 0 ? table.mat : CLPRUNE_NO_MAT, x.mat, y.mat, NULL),
            tables[i].status, tables[i].text);
    }
    TEST_UNCHANGED(&x, &y);
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward, &by, &by_back};
    enum { CASES = COUNT_OF(cases) };
    test_list list = {0};
    for (size_t i = 0; i < CASES * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / CASES];
        if (i % CASES > 1 && s->head_cols - s->stay == 0)
            continue; /* no table */
        layer_add_one(&list, cases[i % CASES], s,
            "%zu x %zu rows, %zu heads of %zu, %zu stay, and %zu + %zu, %g%s", s->batch, s->rows,
            s->heads, s->head_cols, s->stay, s->more, s->gap, (double)s->theta,
            s->adjacent ? ", adjacent" : "");
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, late_rows, NULL, "late rows");
    test_add(&list, over_sub_buffer, NULL, "over a sub-buffer");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("rotary", &list);
}
