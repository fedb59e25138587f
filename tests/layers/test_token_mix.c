/* The backward pass of the token half of a block from its input: at once and in parts. */
#include "ref/token_mix_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    size_t batch, tokens, cols, gap;
    float shift; /* of x: far from zero, as a residual stream is */
} shape;

static const shape shapes[] = {{1, 1, 1, 0, 0}, {2, 3, 5, 1, 0}, {3, 7, 16, 0, 0}, {2, 9, 17, 2, 3},
    {2, 12, 21, 0, 0}, {5, 49, 40, 0, 1}, {3, 16, 130, 3, 0}, {40, 25, 20, 0, 0},
    {125, 12, 37, 0, 0}, {0, 4, 8, 0, 0}, {2, 4, 0, 0, 0}};

LAYER_SIZE(size_all, shape, s->batch * s->tokens, s->cols, s->gap)
LAYER_SIZE(size_row, shape, 1, s->cols, 0)
LAYER_SIZE(size_w, shape, s->tokens, s->tokens, 0)
LAYER_SIZE(size_b, shape, 1, s->tokens, 0)

static void shift(const void *of, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++)
        values[i] += ((const shape *)of)->shift;
}

enum { X, ALPHA, BETA, W, B, LS, DY, DX, DALPHA, DBETA, DW, DB, DLS, OPERANDS };

#define INPUTS                                                                                     \
    {"x", LAYER_IN, size_all, .change = shift}, {"alpha", LAYER_IN, size_row},                     \
        {"beta", LAYER_IN, size_row}, {"w", LAYER_IN, size_w}, {"b", LAYER_IN, size_b},            \
    {                                                                                              \
        "ls", LAYER_IN, size_row                                                                   \
    }
#define OUTPUTS(sum)                                                                               \
    {"dx", LAYER_OUT, size_all}, {"dalpha", LAYER_OUT | (sum), size_row},                          \
        {"dbeta", LAYER_OUT | (sum), size_row}, {"dw", LAYER_OUT | LAYER_NEAR | (sum), size_w},    \
        {"db", LAYER_OUT | (sum), size_b},                                                         \
    {                                                                                              \
        "dls", LAYER_OUT | (sum), size_row                                                         \
    }

static token_mix_ref ref_of(const layer_data *d)
{
    const shape *s = d->shape;
    return (token_mix_ref){s->batch, s->tokens, s->cols, d[X].in, d[ALPHA].in, d[BETA].in, d[W].in,
        d[B].in, d[LS].in, d[DY].in};
}

/* Gradients, bounded by sums of so many terms each. */
static void ref_bounded(const layer_data *d, const size_t *terms)
{
    layer_data sizes[OPERANDS];
    memcpy(sizes, d, sizeof sizes);
    for (size_t i = 0; i <= DY; i++) {
        double *magnitudes = test_doubles(d[i].count);
        for (size_t k = 0; k < d[i].count; k++)
            magnitudes[k] = fabs(d[i].in[k]);
        sizes[i].in = magnitudes;
    }
    const token_mix_ref values = ref_of(d), magnitudes = ref_of(sizes);
    token_mix_ref_backward(&values, (token_mix_ref_grads){d[DX].want, d[DALPHA].want, d[DBETA].want,
                                        d[DW].want, d[DB].want, d[DLS].want});
    token_mix_ref_backward(
        &magnitudes, (token_mix_ref_grads){d[DX].bound, d[DALPHA].bound, d[DBETA].bound,
                         d[DW].bound, d[DB].bound, d[DLS].bound});
    for (size_t i = DX; i <= DLS; i++)
        for (size_t k = 0; k < d[i].count; k++)
            layer_set(&d[i], k, d[i].want[k], terms[i - DX], d[i].bound[k]);
}

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    const size_t p = s->tokens, rows = s->batch * p, samples = s->batch * s->cols;
    const size_t terms[] = {
        p + 3, rows * p + 2, rows * p + 2, samples + 2, samples + 2, rows * (p + 1) + 2};
    ref_bounded(d, terms);
}

/* Of samples from `first` on, dx with dy in it; scratch beside them. */
static void run(const layer_call *c, size_t first, size_t count, float beta, cl_event *event)
{
    const shape *s = c->shape;
    const clprune_mat *m = c->m;
    const size_t at = first * s->tokens, rows = count * s->tokens;
    const clprune_token_mix params = {m[ALPHA], m[BETA], m[W], m[B], m[LS]};
    const clprune_token_mix grads = {m[DALPHA], m[DBETA], m[DW], m[DB], m[DLS]};
    const clprune_mat dx = clprune_mat_rows(m[DX], at, rows);
    test_mat work = test_mat_make(rows, s->cols, s->gap, NULL);
    TEST_OK(clprune_mat_copy(c->context, clprune_mat_rows(m[DY], at, rows), dx, NULL));
    TEST_OK(clprune_token_mix_backward(c->context, count, beta, clprune_mat_rows(m[X], at, rows),
        &params, dx, work.mat, &grads, event));
    (void)test_mat_get(&work, "work");
}

static clprune_status call_backward(const layer_call *c)
{
    run(c, 0, ((const shape *)c->shape)->batch, c->beta, c->event);
    return CLPRUNE_SUCCESS;
}

static const layer_case backward = {"backward",
    {INPUTS, {"dy", LAYER_IN, size_all}, OUTPUTS(LAYER_SUM)}, call_backward, ref_backward, NULL};

static void ref_parts(const layer_data *d)
{
    const shape *s = d->shape;
    size_t terms[DLS - DX + 1];
    for (size_t i = 0; i < COUNT_OF(terms); i++)
        terms[i] = s->batch * s->tokens * (s->tokens + s->cols + 2);
    ref_bounded(d, terms);
}

/* Parts of `step` samples, the last one smaller, and no samples last. dx has the bits of the whole
 * batch's. */
static void run_parts(const layer_call *c, size_t step)
{
    const size_t batch = ((const shape *)c->shape)->batch;
    test_mat dx[2];
    for (size_t i = 0; i < 2; i++) {
        for (size_t first = 0; first < batch; first += i == 0 ? batch : step) {
            const size_t count = i == 0 ? batch : step;
            run(c, first, count < batch - first ? count : batch - first, first > 0 ? 1 : 0, NULL);
        }
        run(c, batch, 0, 1, i == 0 ? NULL : c->event);
        dx[i] = test_mat_make(c->m[DX].rows, c->m[DX].cols, i, NULL);
        TEST_OK(clprune_mat_copy(c->context, c->m[DX], dx[i].mat, NULL));
    }
    layer_same("dx", &dx[0], &dx[1]);
}

static clprune_status call_single(const layer_call *c)
{
    run_parts(c, 1);
    return CLPRUNE_SUCCESS;
}

static clprune_status call_halves(const layer_call *c)
{
    run_parts(c, ((const shape *)c->shape)->batch / 2 + 1);
    return CLPRUNE_SUCCESS;
}

static const layer_case single = {"sample by sample",
    {INPUTS, {"dy", LAYER_IN, size_all}, OUTPUTS(0)}, call_single, ref_parts, NULL};
static const layer_case halves = {
    "in two parts", {INPUTS, {"dy", LAYER_IN, size_all}, OUTPUTS(0)}, call_halves, ref_parts, NULL};

static void ref_forward(const layer_data *d)
{
    const token_mix_ref in = ref_of(d);
    token_mix_ref_forward(&in, d[LS + 1].want);
}

static const layer_case forward = {
    "forward", {INPUTS, {"y", LAYER_OUT, size_all}}, NULL, ref_forward, NULL};

static void slopes(NO_ROW)
{
    static const shape s = {2, 6, 9, 0, 1};
    layer_slopes_of(&forward, &backward, &s, (layer_steps){1e-4, 1e-6, 0, 0, 1e-6});
}

/* What test_invalid_many.c does not have. */
static void invalid(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat all = test_mat_make(6, 5, 0, NULL), row = test_mat_make(1, 5, 0, NULL);
    test_mat dx = test_mat_make(6, 5, 0, NULL), work = test_mat_make(6, 5, 0, NULL);
    test_mat w = test_mat_make(3, 3, 0, NULL), b = test_mat_make(1, 3, 0, NULL);
    const clprune_token_mix good = {row.mat, row.mat, w.mat, b.mat, row.mat};
    clprune_token_mix params = good, grads = good;
    params.reserved[1] = grads.reserved[0] = 1;
#define BACKWARD(batch, params, grads)                                                             \
    clprune_token_mix_backward(context, batch, 1, all.mat, params, dx.mat, work.mat, grads, NULL)
    TEST_FAILS(BACKWARD(2, NULL, &good), bad, "params");
    TEST_FAILS(BACKWARD(2, &good, NULL), bad, "grads");
    TEST_FAILS(BACKWARD(2, &params, &good), bad, "params.reserved");
    TEST_FAILS(BACKWARD(2, &good, &grads), bad, "grads.reserved");
    TEST_FAILS(BACKWARD(SIZE_MAX, &good, &good), CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_FAILS(BACKWARD(1, &good, &good), CLPRUNE_INVALID_SIZE, "x is");
    test_mat_unchanged(&dx, "dx of a refused call");
    test_mat_unchanged(&work, "work of a refused call");
    test_mat_unchanged(&row, "gradients of a refused call");
}

int main(void)
{
    static const layer_case *const cases[] = {&backward, &single, &halves};
    test_list list = {0};
    for (size_t i = 0; i < 3 * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / 3];
        if (i % 3 == 0 || s->batch > 1)
            layer_add_one(&list, cases[i % 3], s, "%zu x %zu x %zu", s->batch, s->tokens, s->cols);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("token_mix", &list);
}
