/* Patch embedding: both passes over patch sizes x channels x images, also image by image. */
#include "support/test_layer.h"

typedef struct shape {
    clprune_patch_embed_desc desc;
    size_t batch, gap;
} shape;

static const shape shapes[] = {
    {{1, 1, 1, 1, 1}, 1, 0},
    {{3, 4, 6, 1, 5}, 2, 1},
    {{3, 6, 4, 2, 17}, 3, 0},
    {{2, 9, 12, 3, 4}, 2, 3},
    {{3, 32, 32, 4, 24}, 2, 0},
    {{1, 14, 21, 7, 9}, 2, 2},
    {{3, 16, 24, 8, 16}, 1, 1},
    {{3, 12, 24, 12, 10}, 2, 0},
    {{3, 32, 48, 16, 12}, 2, 5},
    {{1, 64, 32, 32, 3}, 1, 0},
    {{3, 8, 8, 4, 6}, 0, 0},
    {{3, 0, 8, 4, 6}, 2, 0},
    {{3, 8, 8, 4, 0}, 2, 0},
    {{0, 8, 8, 4, 6}, 2, 0},
    {{3, 4, 48, 4, 21}, 2, 0},
    {{3, 4, 48, 4, 37}, 125, 0},
};

static size_t tokens_of(const clprune_patch_embed_desc *d)
{
    return (d->height / d->patch) * (d->width / d->patch);
}

LAYER_SIZE(size_images, shape, s->batch, s->desc.channels * s->desc.height * s->desc.width, s->gap)
LAYER_SIZE(size_w, shape, s->desc.out, s->desc.channels * s->desc.patch * s->desc.patch, s->gap)
LAYER_SIZE(size_b, shape, 1, s->desc.out, 0)
LAYER_SIZE(size_y, shape, s->batch *tokens_of(&s->desc), s->desc.out, s->gap)

/* Under weight k of a patch: channel, row, column. */
static size_t pixel_of(const clprune_patch_embed_desc *d, size_t token, size_t k)
{
    const size_t across = d->width / d->patch, down = d->height / d->patch;
    const size_t n = token / across / down, area = d->patch * d->patch;
    const size_t y = token / across % down * d->patch + k % area / d->patch;
    const size_t x = token % across * d->patch + k % d->patch;
    return ((n * d->channels + k / area) * d->height + y) * d->width + x;
}

LAYER_CALL_OF(forward, shape,
    clprune_patch_embed_forward(c->context, &s->desc, s->batch, m[0], m[1], m[2], m[3], c->event))

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    for (size_t i = 0; i < d[3].count; i++) {
        const size_t o = i % d[3].cols;
        double sum = d[2].in[o], size = fabs(sum);
        for (size_t k = 0; k < d[1].cols; k++) {
            const double term =
                d->in[pixel_of(&s->desc, i / d[3].cols, k)] * d[1].in[o * d[1].cols + k];
            sum += term;
            size += fabs(term);
        }
        layer_set(&d[3], i, sum, d[1].cols + 1, size);
    }
}

static const layer_case forward = {"forward",
    {{"images", LAYER_IN, size_images}, {"w", LAYER_IN, size_w}, {"b", LAYER_IN, size_b},
        {"y", LAYER_OUT, size_y}},
    call_forward, ref_forward, NULL};

LAYER_CALL_OF(backward, shape,
    clprune_patch_embed_backward(c->context, &s->desc, s->batch, m[0], m[1], m[2],
        &(clprune_grads){.dx = m[3], .dw = m[4], .db = m[5], .beta = c->beta}, c->event))

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    const double *images = d[0].in, *dy = d[1].in, *w = d[2].in;
    double *size = test_doubles(d[2].count);
    for (size_t i = 0; i < d[1].rows * d[2].cols; i++) {
        const size_t token = i / d[2].cols, k = i % d[2].cols;
        const size_t pixel = pixel_of(&s->desc, token, k);
        double sum = 0, all = 0;
        for (size_t o = 0; o < d[1].cols; o++) {
            const double gradient = dy[token * d[1].cols + o];
            sum += gradient * w[o * d[2].cols + k];
            all += fabs(gradient * w[o * d[2].cols + k]);
            d[4].want[o * d[2].cols + k] += gradient * images[pixel];
            size[o * d[2].cols + k] += fabs(gradient * images[pixel]);
        }
        layer_set(&d[3], pixel, sum, d[1].cols, all);
    }
    for (size_t i = 0; i < d[2].count; i++)
        layer_set(&d[4], i, d[4].want[i], d[1].rows, size[i]);
    layer_set_sums(&d[5], d[1].rows, dy, NULL);
}

#define BACKWARD_OPERANDS(sum)                                                                     \
    {                                                                                              \
        {"images", LAYER_IN, size_images}, {"dy", LAYER_IN, size_y}, {"w", LAYER_IN, size_w},      \
            {"dx", LAYER_OUT | LAYER_OPTIONAL, size_images},                                       \
            {"dw", LAYER_OUT | LAYER_OPTIONAL | LAYER_NEAR | LAYER_SUM, size_w},                   \
            {"db", LAYER_OUT | LAYER_OPTIONAL | (sum), size_b},                                    \
    }

static const layer_case backward = {
    "backward", BACKWARD_OPERANDS(LAYER_SUM), call_backward, ref_backward, NULL};

/* Image by image, added up. */
static clprune_status call_in_parts(const layer_call *c)
{
    const shape *s = c->shape;
    const size_t tokens = tokens_of(&s->desc);
    for (size_t n = 0; n < s->batch; n++)
        TEST_OK(clprune_patch_embed_backward(c->context, &s->desc, 1,
            clprune_mat_rows(c->m[0], n, 1), clprune_mat_rows(c->m[1], n * tokens, tokens), c->m[2],
            &(clprune_grads){.dx = clprune_mat_rows(c->m[3], n, 1),
                .dw = c->m[4],
                .db = c->m[5],
                .beta = n == 0 ? c->beta : 1},
            n + 1 == s->batch ? c->event : NULL));
    return CLPRUNE_SUCCESS;
}

static const layer_case in_parts = {"backward in parts", BACKWARD_OPERANDS(LAYER_SUM | LAYER_NEAR),
    call_in_parts, ref_backward, NULL};

static void slopes(NO_ROW)
{
    static const shape s = {{2, 6, 9, 3, 5}, 2, 0};
    layer_slopes_of(&forward, &backward, &s, (layer_steps){1e-4, 1e-8, 1e-2, 1e-3, 1e-6});
}

/* What test_invalid_many.c does not have: descriptions and batches. */
static void invalid(NO_ROW)
{
    static const struct {
        clprune_patch_embed_desc desc;
        size_t batch;
        clprune_status status;
        const char *text;
    } rows[] = {
        {{2, 4, 6, 0, 5}, 3, CLPRUNE_INVALID_ARGUMENT, "patch"},
        {{2, 4, 6, 4, 5}, 3, CLPRUNE_INVALID_ARGUMENT, "patch"},
        {{2, 4, 6, 3, 5}, 3, CLPRUNE_INVALID_ARGUMENT, "patch"},
        {{2, 4, 6, 8, 5}, 3, CLPRUNE_INVALID_ARGUMENT, "patch"},
        {{2, 4, 6, 2, 5, {0, 0, 0, 1}}, 3, CLPRUNE_INVALID_ARGUMENT, "desc.reserved"},
        {{SIZE_MAX / 2, 4, 6, 2, 5}, 3, CLPRUNE_SIZE_OVERFLOW, NULL},
        {{2, 4, 6, 2, 5}, SIZE_MAX / 2, CLPRUNE_SIZE_OVERFLOW, NULL},
        {{2, 4, 6, 2, 5}, 2, CLPRUNE_INVALID_SIZE, "images is"},
    };
    test_mat images = test_mat_make(3, 48, 0, NULL), w = test_mat_make(5, 8, 0, NULL);
    test_mat b = test_mat_make(1, 5, 0, NULL), y = test_mat_make(18, 5, 0, NULL);

    for (size_t i = 0; i <= COUNT_OF(rows); i++) {
        const bool no_desc = i == COUNT_OF(rows);
        const clprune_patch_embed_desc *desc = no_desc ? NULL : &rows[i].desc;
        const size_t batch = no_desc ? 3 : rows[i].batch;
        const clprune_status status = no_desc ? CLPRUNE_INVALID_ARGUMENT : rows[i].status;
        const char *text = no_desc ? "desc" : rows[i].text;
        TEST_FAILS(clprune_patch_embed_forward(
                       test_context(), desc, batch, images.mat, w.mat, b.mat, y.mat, NULL),
            status, text);
        TEST_FAILS(clprune_patch_embed_backward(test_context(), desc, batch, images.mat, y.mat,
                       w.mat, &(clprune_grads){.db = b.mat}, NULL),
            status, text);
    }
    TEST_UNCHANGED(&y, &b);
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward, &in_parts};
    test_list list = {0};
    for (size_t i = 0; i < 3 * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / 3];
        const clprune_patch_embed_desc *d = &s->desc;
        if (cases[i % 3] != &in_parts || s->batch > 0)
            layer_add_one(&list, cases[i % 3], s, "%zu x %zu x %zu x %zu, patch %zu, out %zu",
                s->batch, d->channels, d->height, d->width, d->patch, d->out);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("patch_embed", &list);
}
