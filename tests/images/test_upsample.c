/* Upsampling: forward and backward over images x pixels x channels. */
#include "clprune/upsample.h"
#include "support/test_layer.h"

typedef struct shape {
    size_t batch;
    clprune_extent image, factor;
    size_t cols, gap;
} shape;

static const shape shapes[] = {{1, {1, 1}, {1, 1}, 1, 0}, {2, {3, 4}, {2, 2}, 16, 0},
    {3, {5, 2}, {1, 3}, 15, 1}, {1, {4, 7}, {3, 1}, 17, 2}, {2, {6, 6}, {2, 2}, 64, 0},
    {2, {3, 5}, {4, 2}, 530, 3}, {1, {2, 2}, {2, 3}, 2100, 0}, {0, {5, 5}, {2, 2}, 8, 0},
    {2, {0, 5}, {2, 2}, 8, 0}, {3, {2, 5}, {2, 2}, 0, 0}};

LAYER_SIZE(size_small, shape, s->batch * s->image.height * s->image.width, s->cols, s->gap)
LAYER_SIZE(size_large, shape,
    s->batch * s->image.height * s->image.width * s->factor.height * s->factor.width, s->cols,
    s->gap)

/* The row of x that row r of y is a copy of. */
static size_t row_of(const shape *s, size_t r)
{
    const size_t width = s->image.width * s->factor.width,
                 height = s->image.height * s->factor.height, n = r / (height * width),
                 i = r / width % height, j = r % width;
    return (n * s->image.height + i / s->factor.height) * s->image.width + j / s->factor.width;
}

LAYER_CALL_OF(forward, shape,
    clprune_upsample_forward(c->context, s->factor, s->batch, s->image, m[0], m[1], c->event))

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    for (size_t i = 0; i < d[1].count; i++)
        d[1].want[i] = d->in[row_of(s, i / s->cols) * s->cols + i % s->cols];
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, size_small}, {"y", LAYER_OUT, size_large}}, call_forward, ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_upsample_backward(c->context, s->factor, s->batch, s->image, m[0], m[1], c->event))

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    const size_t terms = s->factor.height * s->factor.width;
    for (size_t i = 0; i < d[0].count; i++) {
        const size_t at = row_of(s, i / s->cols) * s->cols + i % s->cols;
        d[1].want[at] += d->in[i];
        d[1].bound[at] += fabs(d->in[i]);
    }
    for (size_t i = 0; i < d[1].count; i++)
        d[1].bound[i] = test_bound(terms, d[1].bound[i], 0);
}

static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, size_large}, {"dx", LAYER_OUT, size_small}}, call_backward, ref_backward,
    NULL};

static void slopes(NO_ROW)
{
    static const shape few = {2, {3, 4}, {2, 3}, 18, 0};
    layer_slopes_of(&forward, &backward, &few, (layer_steps){1e-3, 1e-8, 1e-2, 1e-3, 1e-6});
}

static void arguments(NO_ROW)
{
    const clprune_extent none = {2, 0}, twice = {2, 2}, image = {1, 3};
    test_mat x = test_mat_make(3, 5, 0, NULL), y = test_mat_make(12, 5, 0, NULL);
    TEST_FAILS(clprune_upsample_forward(test_context(), none, 1, image, x.mat, y.mat, NULL),
        CLPRUNE_INVALID_ARGUMENT, "factor is 2 x 0");
    TEST_FAILS(clprune_upsample_forward(test_context(), twice, SIZE_MAX, image, x.mat, y.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_FAILS(clprune_upsample_backward(test_context(), twice, 2, image, y.mat, x.mat, NULL),
        CLPRUNE_INVALID_SIZE, NULL);
    TEST_UNCHANGED(&x, &y);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        layer_add_one(&list, &forward, &shapes[i], "shape %zu", i);
        layer_add_one(&list, &backward, &shapes[i], "shape %zu", i);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, arguments, NULL, "arguments");
    return test_run_on_devices("upsample", &list);
}
