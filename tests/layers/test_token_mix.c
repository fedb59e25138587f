/* The backward pass of the token half of a block from its input: values over shapes, derivatives,
 * agreement with the three layers, repeatability, invalid arguments. */
#include <stdio.h>

#include "ref/token_mix_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    size_t batch, tokens, cols, gap;
    float shift; /* of x: far from zero, as a residual stream is */
} shape;

static const shape shapes[] = {{1, 1, 1, 0, 0}, {2, 3, 5, 1, 0}, {3, 7, 16, 0, 0}, {2, 9, 17, 2, 3},
    {5, 49, 40, 0, 1}, {3, 16, 130, 3, 0}, {40, 25, 20, 0, 0}, {0, 4, 8, 0, 0}, {2, 4, 0, 0, 0}};

/* Inputs: x, alpha, beta, w, b, ls, dy. */
enum { SHAPES = sizeof shapes / sizeof shapes[0], INPUT_COUNT = 7, OUTPUT_COUNT = 6 };

static const char *const output_names[OUTPUT_COUNT] = {"dx", "dalpha", "dbeta", "dw", "db", "dls"};

/* Inputs as floats, as doubles and their magnitudes. */
typedef struct inputs {
    size_t rows[INPUT_COUNT], cols[INPUT_COUNT];
    float *values[INPUT_COUNT];
    double *wide[INPUT_COUNT], *sizes[INPUT_COUNT];
    size_t outputs[OUTPUT_COUNT]; /* elements of each gradient */
} inputs;

static inputs inputs_new(const shape *s)
{
    const size_t all = s->batch * s->tokens;
    inputs in = {.rows = {all, 1, 1, s->tokens, 1, 1, all},
        .cols = {s->cols, s->cols, s->cols, s->tokens, s->tokens, s->cols, s->cols},
        .outputs = {all * s->cols, s->cols, s->cols, s->tokens * s->tokens, s->tokens, s->cols}};
    for (size_t i = 0; i < INPUT_COUNT; i++) {
        const size_t count = in.rows[i] * in.cols[i];
        in.values[i] = test_new_normal(61 + i, count);
        for (size_t k = 0; k < count && i == 0; k++)
            in.values[i][k] += s->shift;
        in.wide[i] = layer_widen(count, in.values[i]);
        in.sizes[i] = layer_new(count);
        for (size_t k = 0; k < count; k++)
            in.sizes[i][k] = fabs(in.wide[i][k]);
    }
    return in;
}

static token_mix_ref ref_of(const shape *s, double *const *v)
{
    return (token_mix_ref){s->batch, s->tokens, s->cols, v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
}

static token_mix_ref_grads ref_grads(const inputs *in, double **arrays)
{
    for (size_t i = 0; i < OUTPUT_COUNT; i++)
        arrays[i] = layer_new(in->outputs[i]);
    return (token_mix_ref_grads){arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5]};
}

/* The device's arguments: six inputs, dx with dy in it, work, five gradients. */
typedef struct arguments {
    test_mat in[INPUT_COUNT - 1], dx, work, out[OUTPUT_COUNT - 1];
    clprune_token_mix params, grads;
} arguments;

static arguments arguments_make(const shape *s, const inputs *in)
{
    arguments a;
    for (size_t i = 0; i < INPUT_COUNT - 1; i++)
        a.in[i] = test_mat_make(in->rows[i], in->cols[i], i == 0 ? s->gap : 0, in->values[i]);
    const size_t all = s->batch * s->tokens;
    a.dx = test_mat_make(all, s->cols, s->gap + 1, in->values[INPUT_COUNT - 1]);
    a.work = test_mat_make(all, s->cols, s->gap, NULL);
    for (size_t i = 0; i < OUTPUT_COUNT - 1; i++)
        a.out[i] = test_mat_make(in->rows[i + 1], in->cols[i + 1], i == 2 ? 3 : 0, NULL);
    a.params = (clprune_token_mix){a.in[1].mat, a.in[2].mat, a.in[3].mat, a.in[4].mat, a.in[5].mat};
    a.grads =
        (clprune_token_mix){a.out[0].mat, a.out[1].mat, a.out[2].mat, a.out[3].mat, a.out[4].mat};
    return a;
}

static clprune_status run(const shape *s, arguments *a, cl_event *event)
{
    return clprune_token_mix_backward(test_context(), s->batch, 0, a->in[0].mat, &a->params,
        a->dx.mat, a->work.mat, &a->grads, event);
}

/* Output i: dx, then the gradients. */
static const test_mat *output(const arguments *a, size_t i)
{
    return i == 0 ? &a->dx : &a->out[i - 1];
}

static void values(void **state)
{
    const shape *s = *state;
    inputs in = inputs_new(s);
    const size_t p = s->tokens, terms[OUTPUT_COUNT] = {p + 1, s->batch * p * p, s->batch * p * p,
                                    s->batch * s->cols, s->batch * s->cols, s->batch * p * (p + 1)};
    double *want[OUTPUT_COUNT], *sizes[OUTPUT_COUNT];
    const token_mix_ref ref = ref_of(s, in.wide), magnitudes = ref_of(s, in.sizes);
    token_mix_ref_backward(&ref, ref_grads(&in, want));
    token_mix_ref_backward(&magnitudes, ref_grads(&in, sizes));
    arguments a = arguments_make(s, &in), again = arguments_make(s, &in);
    cl_event event = NULL;
    TEST_OK(run(s, &a, &event));
    layer_event(event);
    TEST_OK(run(s, &again, NULL));
    for (size_t i = 0; i < OUTPUT_COUNT; i++) {
        for (size_t k = 0; k < in.outputs[i]; k++)
            sizes[i][k] = test_bound(terms[i] + 2, sizes[i][k], want[i][k]);
        layer_check(output_names[i], output(&a, i), want[i], sizes[i], "backward");
        layer_same(output_names[i], output(&a, i), output(&again, i));
    }
    for (size_t i = 0; i < INPUT_COUNT - 1; i++)
        test_mat_unchanged(&a.in[i], "input");
    (void)test_mat_get(&a.work, "work");
}

/* `first` to `first + count` samples of a batch, the first ones overwriting the gradients; the work
 * of as many samples. */
static clprune_status run_part(const shape *s, arguments *a, size_t first, size_t count)
{
    const size_t p = s->tokens;
    return clprune_token_mix_backward(test_context(), count, first > 0 ? 1 : 0,
        clprune_mat_rows(a->in[0].mat, first * p, count * p), &a->params,
        clprune_mat_rows(a->dx.mat, first * p, count * p),
        clprune_mat_rows(a->work.mat, 0, count * p), &a->grads, NULL);
}

/* A batch in parts, of one sample and of as many as leave a smaller last part; no samples last. dx
 * has the bits of the whole batch's. */
static void parts(void **state)
{
    const shape *s = *state;
    inputs in = inputs_new(s);
    double *want[OUTPUT_COUNT], *sizes[OUTPUT_COUNT];
    const token_mix_ref ref = ref_of(s, in.wide), magnitudes = ref_of(s, in.sizes);
    token_mix_ref_backward(&ref, ref_grads(&in, want));
    token_mix_ref_backward(&magnitudes, ref_grads(&in, sizes));
    const size_t terms = s->batch * s->tokens * (s->tokens + s->cols + 2);
    for (size_t i = 0; i < OUTPUT_COUNT; i++)
        for (size_t k = 0; k < in.outputs[i]; k++)
            sizes[i][k] = test_bound(terms, sizes[i][k], want[i][k]);
    arguments whole = arguments_make(s, &in);
    TEST_OK(run(s, &whole, NULL));
    const size_t steps[2] = {1, s->batch / 2 + 1};
    for (int i = 0; i < 2; i++) {
        arguments a = arguments_make(s, &in);
        for (size_t first = 0; first < s->batch; first += steps[i])
            TEST_OK(
                run_part(s, &a, first, steps[i] < s->batch - first ? steps[i] : s->batch - first));
        TEST_OK(run_part(s, &a, s->batch, 0));
        layer_same("dx", &a.dx, &whole.dx);
        for (size_t k = 0; k < OUTPUT_COUNT; k++)
            layer_check(output_names[k], output(&a, k), want[k], sizes[k], "parts");
        (void)test_mat_get(&a.work, "work");
    }
    (void)test_mat_get(&whole.work, "work");
}

/* sum dy * y as a function of all inputs but dy, one after the other. */
typedef struct problem {
    const shape *s;
    const inputs *in;
} problem;

static double loss_ref(void *user, const double *theta)
{
    const problem *p = user;
    double *v[INPUT_COUNT], loss = 0;
    const size_t count = p->in->outputs[0];
    for (size_t i = 0; i < INPUT_COUNT - 1; i++) {
        v[i] = (double *)theta;
        theta += p->in->rows[i] * p->in->cols[i];
    }
    v[INPUT_COUNT - 1] = p->in->wide[INPUT_COUNT - 1];
    const token_mix_ref ref = ref_of(p->s, v);
    double *y = layer_new(count);
    token_mix_ref_forward(&ref, y);
    for (size_t i = 0; i < count; i++)
        loss += v[INPUT_COUNT - 1][i] * y[i];
    return loss;
}

/* The device's gradient, and the reference's, against differences of the double-precision loss. */
static void slopes(void **state)
{
    (void)state;
    static const shape s = {2, 6, 9, 0, 1};
    inputs in = inputs_new(&s);
    problem p = {&s, &in};
    size_t total = 0;
    for (size_t i = 0; i < INPUT_COUNT - 1; i++)
        total += in.rows[i] * in.cols[i];
    double *theta = layer_new(total), *grad = layer_new(total), *want[OUTPUT_COUNT];
    double *device = layer_new(total);
    const token_mix_ref ref = ref_of(&s, in.wide);
    token_mix_ref_backward(&ref, ref_grads(&in, want));
    arguments a = arguments_make(&s, &in);
    TEST_OK(run(&s, &a, NULL));
    for (size_t i = 0, at = 0; i < OUTPUT_COUNT; i++) {
        float *got = test_mat_get(output(&a, i), output_names[i]);
        memcpy(theta + at, in.wide[i], in.outputs[i] * sizeof *theta);
        memcpy(grad + at, want[i], in.outputs[i] * sizeof *grad);
        for (size_t k = 0; k < in.outputs[i]; k++)
            device[at + k] = (double)got[k];
        at += in.outputs[i];
    }
    layer_slopes("reference", loss_ref, &p, total, theta, grad, 1e-4, 1e-6);
    layer_slopes("device", loss_ref, &p, total, theta, device, 1e-4, 1e-6);
}

static void invalid(void **state)
{
    (void)state;
    static const shape s = {2, 3, 5, 0, 0};
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    clprune_context *context = test_context();
    inputs in = inputs_new(&s);
    arguments a = arguments_make(&s, &in);
    test_mat other = test_mat_make(6, 4, 0, NULL);
    cl_event event = NULL;
#define BACKWARD(...) clprune_token_mix_backward(__VA_ARGS__, &event)
    const clprune_mat x = a.in[0].mat, dx = a.dx.mat, work = a.work.mat;
    assert_int_equal(BACKWARD(NULL, 2, 0, x, &a.params, dx, work, &a.grads), bad);
    TEST_FAILS(BACKWARD(context, 2, 1, x, NULL, dx, work, &a.grads), bad, "params");
    TEST_FAILS(BACKWARD(context, 2, 1, x, &a.params, dx, work, NULL), bad, "grads");
    TEST_FAILS(BACKWARD(context, SIZE_MAX, 1, x, &a.params, dx, work, &a.grads),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_FAILS(BACKWARD(context, 1, 1, x, &a.params, dx, work, &a.grads), size, "x is");
    TEST_FAILS(BACKWARD(context, 2, 1, x, &a.params, other.mat, work, &a.grads), size, "dx is");
    TEST_FAILS(BACKWARD(context, 2, 1, x, &a.params, dx, other.mat, &a.grads), size, "work is");
    clprune_token_mix newer = a.params;
    newer.reserved[1] = 1;
    TEST_FAILS(BACKWARD(context, 2, 1, x, &newer, dx, work, &a.grads), bad, "params.reserved");
    newer = a.grads;
    newer.reserved[0] = 1;
    TEST_FAILS(BACKWARD(context, 2, 1, x, &a.params, dx, work, &newer), bad, "grads.reserved");
    static const char *const members[] = {"alpha", "beta", "w", "b", "ls"};
    for (int i = 0; i < 5; i++) {
        clprune_token_mix params = a.params, grads = a.grads;
        clprune_mat *const in_params[] = {
            &params.alpha, &params.beta, &params.w, &params.b, &params.ls};
        clprune_mat *const in_grads[] = {&grads.alpha, &grads.beta, &grads.w, &grads.b, &grads.ls};
        char text[32];
        const clprune_mat kept = *in_grads[i];
        in_params[i]->cols--;
        (void)snprintf(text, sizeof text, "%s is", members[i]);
        TEST_FAILS(BACKWARD(context, 2, 1, x, &params, dx, work, &a.grads), size, text);
        in_grads[i]->cols--;
        (void)snprintf(text, sizeof text, "d%s is", members[i]);
        TEST_FAILS(BACKWARD(context, 2, 1, x, &a.params, dx, work, &grads), size, text);
        *in_grads[i] = kept;
        in_grads[i]->buffer = work.buffer;
        in_grads[i]->offset = work.offset;
        (void)snprintf(text, sizeof text, "d%s overlaps work", members[i]);
        TEST_FAILS(BACKWARD(context, 2, 1, x, &a.params, dx, work, &grads), bad, text);
    }
    TEST_FAILS(BACKWARD(context, 2, 1, x, &a.params, x, work, &a.grads), bad, "dx overlaps x");
    TEST_FAILS(BACKWARD(context, 2, 1, x, &a.params, dx, x, &a.grads), bad, "work overlaps x");
    TEST_FAILS(BACKWARD(context, 2, 1, x, &a.params, dx, dx, &a.grads), bad, "work overlaps dx");
    assert_null(event);
    for (size_t i = 0; i < OUTPUT_COUNT; i++)
        test_mat_unchanged(output(&a, i), "output of a refused call");
    test_mat_unchanged(&a.work, "work of a refused call");
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < SHAPES; i++)
        test_add(&list, values, &shapes[i], "values %zu x %zu x %zu", shapes[i].batch,
            shapes[i].tokens, shapes[i].cols);
    for (size_t i = 0; i < SHAPES; i++)
        if (shapes[i].batch > 1)
            test_add(&list, parts, &shapes[i], "parts %zu x %zu x %zu", shapes[i].batch,
                shapes[i].tokens, shapes[i].cols);
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("token_mix", &list);
}
