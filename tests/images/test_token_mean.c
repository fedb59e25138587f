/* Token mean: forward and backward over samples x tokens x features. */
#include "support/test_layer.h"

typedef struct shape {
    size_t batch, tokens, cols, gap;
} shape;

static const shape shapes[] = {{1, 1, 1, 0}, {3, 1, 16, 0}, {1, 7, 15, 1}, {2, 9, 17, 0},
    {5, 196, 20, 2}, {4, 64, 128, 0}, {3, 5, 4, 0}, {2, 3, 3, 5}, {2, 5, 530, 3}, {2, 3, 2100, 0},
    {0, 5, 8, 0}, {3, 5, 0, 0}, {0, 0, 0, 0}, {2, 0, 5, 1}};

LAYER_SIZE(size_tokens, shape, s->batch * s->tokens, s->cols, s->gap)
LAYER_SIZE(size_means, shape, s->batch, s->cols, s->gap)

LAYER_CALL_OF(forward, shape,
    clprune_token_mean_forward(c->context, s->batch, s->tokens, m[0], m[1], c->event))

/* No tokens: NaN. Two roundings besides the sum's: of 1 / tokens and of the product. */
static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    const double tokens = (double)s->tokens;
    for (size_t i = 0; i < d[1].count; i++) {
        double sum = 0, size = 0;
        for (size_t p = 0; p < s->tokens; p++) {
            const double x = d->in[(i / s->cols * s->tokens + p) * s->cols + i % s->cols];
            sum += x;
            size += fabs(x);
        }
        d[1].want[i] = sum / tokens;
        d[1].bound[i] = test_bound(s->tokens, size / tokens, 2 * d[1].want[i]);
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, size_tokens}, {"y", LAYER_OUT, size_means}}, call_forward, ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_token_mean_backward(c->context, s->batch, s->tokens, m[0], m[1], c->event))

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    for (size_t i = 0; i < d[1].count; i++) {
        const size_t sample = i / s->cols / s->tokens;
        d[1].want[i] = d->in[sample * s->cols + i % s->cols] / (double)s->tokens;
        d[1].bound[i] = test_bound(0, 0, 2 * d[1].want[i]);
    }
}

static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, size_means}, {"dx", LAYER_OUT, size_tokens}}, call_backward, ref_backward,
    NULL};

static void slopes(NO_ROW)
{
    static const shape few = {3, 7, 18, 0};
    layer_slopes_of(&forward, &backward, &few, (layer_steps){1e-3, 1e-8, 1e-2, 1e-3, 1e-6});
}

static void many_samples(NO_ROW)
{
    test_mat x = test_mat_make(12, 5, 0, NULL), y = test_mat_make(3, 5, 0, NULL);
    TEST_FAILS(clprune_token_mean_forward(test_context(), SIZE_MAX, 4, x.mat, y.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_FAILS(clprune_token_mean_backward(test_context(), SIZE_MAX, 4, y.mat, x.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_UNCHANGED(&x, &y);
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward};
    test_list list = {0};
    for (size_t i = 0; i < 2 * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / 2];
        layer_add_one(&list, cases[i % 2], s, "%zu x %zu tokens x %zu + %zu", s->batch, s->tokens,
            s->cols, s->gap);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, many_samples, NULL, "2^64 samples");
    return test_run_on_devices("token_mean", &list);
}
