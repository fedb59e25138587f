/* LSTM, GRU and plain cells: states and gradients against double precision, with time in both
 * directions, with and without states before the first step, from states that are restored, too,
 * which differ from those of the forward pass; slopes; states of a sequence do not reach others;
 * what is refused. */
#include "clprune/recurrent.h"

#include "support/test_layer.h"

typedef struct shape {
    clprune_cell cell;
    size_t batch, steps, hidden, gap;
    bool reverse;
} shape;

#define LSTM CLPRUNE_CELL_LSTM
#define GRU  CLPRUNE_CELL_GRU
#define TANH CLPRUNE_CELL_TANH
#define RELU CLPRUNE_CELL_RELU
static const shape shapes[] = {{LSTM, 1, 1, 1, 0}, {GRU, 1, 1, 1, 0}, {LSTM, 3, 4, 5, 1},
    {GRU, 3, 4, 5, 1}, {LSTM, 2, 7, 16, 0, true}, {GRU, 2, 7, 16, 0, true}, {LSTM, 5, 9, 37, 3},
    {GRU, 5, 9, 37, 3}, {LSTM, 1, 12, 20, 2, true}, {GRU, 1, 12, 20, 2, true}, {LSTM, 40, 2, 8, 0},
    {GRU, 40, 2, 8, 0}, {LSTM, 4, 1, 6, 0, true}, {GRU, 4, 1, 6, 0, true}, {LSTM, 2, 3, 260, 0},
    {GRU, 2, 3, 260, 0}, {LSTM, 0, 3, 8, 0}, {GRU, 0, 3, 8, 0}, {LSTM, 2, 3, 0, 0},
    {GRU, 2, 3, 0, 0}, {TANH, 1, 1, 1, 0}, {TANH, 3, 4, 5, 1, true}, {TANH, 5, 9, 37, 3},
    {TANH, 2, 3, 260, 0}, {RELU, 3, 4, 5, 1}, {RELU, 5, 9, 37, 3, true}, {RELU, 0, 3, 8, 0}};
static const char *const names[] = {"LSTM", "GRU", "tanh", "ReLU"};

static size_t gates_of(const shape *s)
{
    return (s->cell == LSTM ? 4 : s->cell == GRU ? 3 : 1) * s->hidden;
}
static size_t states_of(const shape *s)
{
    return (s->cell == LSTM ? 2 : 1) * s->hidden;
}

LAYER_SIZE(size_z, shape, s->batch * s->steps, gates_of(s), s->gap)
LAYER_SIZE(size_w, shape, gates_of(s), s->hidden, s->gap)
LAYER_SIZE(size_b, shape, 1, gates_of(s), s->gap)
LAYER_SIZE(size_0, shape, s->batch, states_of(s), s->gap)
LAYER_SIZE(size_y, shape, s->batch * s->steps, states_of(s), s->gap)

static clprune_recurrent_desc desc_of(const shape *s)
{
    return (clprune_recurrent_desc){.cell = s->cell, .steps = s->steps, .reverse = s->reverse};
}

/* ---- the reference ---- */

/* The gates of a row, and a, from the row of y before (NULL: none). */
typedef struct gates {
    double g[4], slope[4], an;
} gates;

static gates gates_at(const shape *s, const layer_data *d, size_t row, const double *past, size_t c)
{
    const size_t all = gates_of(s), n = all / s->hidden;
    gates found = {0};
    for (size_t k = 0; k < n; k++) {
        const size_t of = k * s->hidden + c;
        double a = d[2].in != NULL ? d[2].in[of] : 0;
        for (size_t j = 0; past != NULL && j < s->hidden; j++)
            a += d[1].in[of * s->hidden + j] * past[j];
        const double z = d[0].in[row * all + of];
        if (s->cell == RELU) {
            found.g[k] = fmax(z + a, 0);
            found.slope[k] = z + a > 0;
        } else if (k == 2 || s->cell == TANH) {
            found.an = a;
            found.g[k] = tanh(z + (s->cell == GRU ? found.g[0] : 1) * a);
            found.slope[k] = 1 - found.g[k] * found.g[k];
        } else {
            found.g[k] = 1 / (1 + exp(-z - a));
            found.slope[k] = found.g[k] * (1 - found.g[k]);
        }
    }
    return found;
}

/* Row t in time of sequence n. */
static size_t row_of(const shape *s, size_t n, size_t t)
{
    return n * s->steps + (s->reverse ? s->steps - 1 - t : t);
}

/* The states before row t in time of sequence n, whose states are y; NULL: none. */
static const double *past_of(
    const shape *s, const layer_data *d, const double *y, size_t n, size_t t)
{
    const size_t cols = states_of(s);
    if (t > 0)
        return y + row_of(s, n, t - 1) * cols;
    return d[3].in != NULL ? d[3].in + n * cols : NULL;
}

/* A bound of errors for all elements alike: 4e-6 of the largest. */
static void bound_all(const layer_data *d)
{
    double most = 0;
    for (size_t i = 0; i < d->count; i++)
        most = fmax(most, fabs(d->want[i]));
    for (size_t i = 0; i < d->count; i++)
        d->bound[i] = 4e-6 * most;
}

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    const size_t hidden = s->hidden, cols = states_of(s);
    for (size_t n = 0; n < s->batch; n++)
        for (size_t t = 0; t < s->steps; t++) {
            double *to = d[4].want + row_of(s, n, t) * cols;
            const double *past = past_of(s, d, d[4].want, n, t);
            for (size_t c = 0; c < hidden; c++) {
                const gates x = gates_at(s, d, row_of(s, n, t), past, c);
                if (s->cell == LSTM) {
                    to[hidden + c] =
                        x.g[1] * (past != NULL ? past[hidden + c] : 0) + x.g[0] * x.g[2];
                    to[c] = x.g[3] * tanh(to[hidden + c]);
                } else if (s->cell != GRU)
                    to[c] = x.g[0];
                else
                    to[c] = (1 - x.g[1]) * x.g[2] + x.g[1] * (past != NULL ? past[c] : 0);
            }
        }
    bound_all(&d[4]);
}

static void ref_backward(const layer_data *d)
{
    enum { Z, W, B, STATES0, Y, DY, DZ, DW, DB, DSTATES0 };
    const shape *s = d->shape;
    const size_t hidden = s->hidden, cols = states_of(s), all = gates_of(s);
    for (size_t n = 0; n < s->batch; n++) {
        double *dh = test_doubles(hidden), *dc = test_doubles(hidden);
        for (size_t t = s->steps; t-- > 0;) {
            const size_t row = row_of(s, n, t);
            const double *past = past_of(s, d, d[Y].in, n, t);
            double *da = test_doubles(all), *next = test_doubles(hidden);
            for (size_t c = 0; c < hidden; c++) {
                const gates x = gates_at(s, d, row, past, c);
                double *dz = d[DZ].want + row * all + c, of_h = d[DY].in[row * cols + c] + dh[c];
                if (s->cell == LSTM) {
                    const double before = past != NULL ? past[hidden + c] : 0;
                    const double tanh_c = tanh(x.g[1] * before + x.g[0] * x.g[2]);
                    const double of_c = d[DY].in[row * cols + hidden + c] + dc[c] +
                                        of_h * x.g[3] * (1 - tanh_c * tanh_c);
                    const double of[] = {
                        of_c * x.g[2], of_c * before, of_c * x.g[0], of_h * tanh_c};
                    for (size_t k = 0; k < 4; k++)
                        da[k * hidden + c] = dz[k * hidden] = of[k] * x.slope[k];
                    dc[c] = of_c * x.g[1];
                } else if (s->cell != GRU) {
                    da[c] = dz[0] = of_h * x.slope[0];
                } else {
                    const double of_n = of_h * (1 - x.g[1]) * x.slope[2];
                    const double of_u = of_h * ((past != NULL ? past[c] : 0) - x.g[2]);
                    da[c] = dz[0] = of_n * x.an * x.slope[0];
                    da[hidden + c] = dz[hidden] = of_u * x.slope[1];
                    dz[2 * hidden] = of_n;
                    da[2 * hidden + c] = of_n * x.g[0];
                    next[c] = of_h * x.g[1];
                }
            }
            for (size_t i = 0; i < all; i++) {
                d[DB].want[i] += da[i];
                for (size_t j = 0; j < hidden; j++) {
                    next[j] += da[i] * d[W].in[i * hidden + j];
                    d[DW].want[i * hidden + j] += past != NULL ? da[i] * past[j] : 0;
                }
            }
            dh = next;
        }
        for (size_t c = 0; c < hidden; c++) {
            d[DSTATES0].want[n * cols + c] = dh[c];
            if (s->cell == LSTM)
                d[DSTATES0].want[n * cols + hidden + c] = dc[c];
        }
    }
    for (size_t i = DZ; i <= DSTATES0; i++)
        bound_all(&d[i]);
}

/* ---- the cases ---- */

#define IN_BOTH                                                                                    \
    {"z", LAYER_IN, size_z, .low = -2, .high = 2},                                                 \
        {"w", LAYER_IN, size_w, .low = -.3f, .high = .3f},                                         \
        {"b", LAYER_IN | LAYER_OPTIONAL, size_b},                                                  \
    {                                                                                              \
        "states0", LAYER_IN | LAYER_OPTIONAL, size_0, .low = -1, .high = 1                         \
    }

LAYER_CALL_OF(forward, shape,
    clprune_recurrent_forward(c->context,
        &(clprune_recurrent_desc){s->cell, s->steps, s->reverse, {0}}, m[0], m[1], m[2], m[3], m[4],
        c->event))

static const layer_case forward = {
    "forward", {IN_BOTH, {"y", LAYER_OUT, size_y}}, call_forward, ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_recurrent_backward(c->context,
        &(clprune_recurrent_desc){s->cell, s->steps, s->reverse, {0}}, c->beta, m[0], m[1], m[2],
        m[3], m[4], m[5], m[6], m[7], m[8], m[9], c->event))

static const layer_case backward = {"backward",
    {IN_BOTH, {"y", LAYER_IN, size_y, .low = -1, .high = 1}, {"dy", LAYER_IN, size_y},
        {"dz", LAYER_OUT, size_z},
        {"dw", LAYER_OUT | LAYER_OPTIONAL | LAYER_NEAR | LAYER_SUM, size_w},
        {"db", LAYER_OUT | LAYER_OPTIONAL | LAYER_SUM, size_b},
        {"dstates0", LAYER_OUT | LAYER_OPTIONAL, size_0}},
    call_backward, ref_backward, NULL};

static void slopes(NO_ROW)
{
    static const size_t some[] = {2, 3, 4, 5, 21};
    for (size_t i = 0; i < COUNT_OF(some); i++)
        layer_slopes_of(
            &forward, &backward, &shapes[some[i]], (layer_steps){1e-4, 1e-6, 1e-2, 1e-3, 1e-5});
}

/* NaN and infinities stay in their sequence; closed gates keep a state. */
static void sequences(NO_ROW)
{
    for (size_t cell = 0; cell < COUNT_OF(names); cell++) {
        const shape s = {(clprune_cell)cell, 3, 4, 2, 0, cell == 1};
        const clprune_recurrent_desc desc = desc_of(&s);
        const size_t all = gates_of(&s), cols = states_of(&s);
        float *values = test_floats(12 * all);
        for (size_t i = 0; i < 12 * all; i++)
            values[i] = i / (4 * all) == 1 ? NAN : (float)i / 40;
        test_mat z = test_mat_make(12, all, 0, values), w = test_mat_make(all, 2, 0, NULL);
        test_mat y = test_mat_make(12, cols, 0, NULL);
        TEST_OK(clprune_mat_fill(test_context(), 0.1f, w.mat, NULL));
        TEST_OK(clprune_recurrent_forward(
            test_context(), &desc, z.mat, w.mat, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, y.mat, NULL));
        const float *got = test_mat_get(&y, "y");
        for (size_t i = 0; i < 12 * cols; i++)
            assert_true(isnan(got[i]) == (i / (4 * cols) == 1));
    }
}

static void refused(NO_ROW)
{
    test_mat z = test_mat_make(6, 8, 0, NULL), w = test_mat_make(8, 2, 0, NULL);
    test_mat y = test_mat_make(6, 4, 0, NULL);
    clprune_recurrent_desc desc = {LSTM, 4, false, {0}};
#define FAILS(status, text)                                                                        \
    TEST_FAILS(clprune_recurrent_forward(test_context(), &desc, z.mat, w.mat, CLPRUNE_NO_MAT,      \
                   CLPRUNE_NO_MAT, y.mat, NULL),                                                   \
        status, text)
    FAILS(CLPRUNE_INVALID_SIZE, "z has 6 rows, expected a multiple of 4 steps");
    desc.steps = 0;
    FAILS(CLPRUNE_INVALID_SIZE, "expected a multiple of 0 steps, at least 1");
    desc.steps = 3;
    desc.cell = (clprune_cell)4;
    FAILS(CLPRUNE_INVALID_ARGUMENT, "cell is 4, expected a clprune_cell");
    desc.cell = GRU;
    FAILS(CLPRUNE_INVALID_SIZE, "z is 6 x 8, expected 6 x 6");
    desc.reserved[1] = 1;
    FAILS(CLPRUNE_INVALID_ARGUMENT, "reserved");
    desc.reserved[1] = 0;
    w.mat.cols = SIZE_MAX / 2;
    FAILS(CLPRUNE_SIZE_OVERFLOW, "gates");
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i];
        const layer_case *const both[] = {&forward, &backward};
        for (size_t k = 0; k < 2; k++)
            layer_add_one(&list, both[k], s, "%s, %zu x %zu x %zu%s", names[s->cell], s->batch,
                s->steps, s->hidden, s->reverse ? ", reverse" : "");
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, sequences, NULL, "sequences");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("recurrent", &list);
}
