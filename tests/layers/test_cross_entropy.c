/* Cross-entropy: values over batches x classes x smoothing, ties, labels out of range, special
 * values, large logits, derivatives, aliasing, repeatability. */
#include "clprune/cross_entropy.h"
#include "ref/cross_entropy_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    size_t batch, classes, gap;
    float smoothing;
    const int32_t *labels;       /* NULL: they run through the classes */
    void (*fill)(float *values); /* changes logits or log_p; or NULL */
} shape;

static const int32_t *labels_of(const shape *s)
{
    if (s->labels != NULL)
        return s->labels;
    int32_t *labels = test_alloc(s->batch * sizeof *labels);
    for (size_t n = 0; n < s->batch; n++)
        labels[n] = (int32_t)((7 * n + 2) % s->classes);
    return labels;
}

static void fill(const void *of, size_t count, float *values)
{
    (void)count;
    if (((const shape *)of)->fill != NULL)
        ((const shape *)of)->fill(values);
}

LAYER_SIZE(size_all, shape, s->batch, s->classes, s->gap)
LAYER_SIZE(size_column, shape, s->batch, 1, s->gap)

/* The scale of the gradient is one number; for slopes it is that of each row's loss. */
#define SCALE 0.25f

static void fill_scale(const void *of, size_t count, float *values)
{
    (void)of;
    for (size_t i = 0; i < count; i++)
        values[i] = SCALE;
}

static clprune_status call_forward(const layer_call *c)
{
    const shape *s = c->shape;
    const test_buf labels = test_buf_make(s->batch * sizeof(int32_t), labels_of(s));
    const clprune_status status = clprune_cross_entropy_forward(c->context, s->smoothing, c->m[0],
        test_buf_ints(&labels), c->m[1], c->m[2], c->m[3], c->event);
    test_buf_unchanged(&labels, "labels");
    return status;
}

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    cross_entropy_ref_forward(s->batch, s->classes, (double)s->smoothing, d->in, labels_of(s),
        d[1].want, d[1].bound, d[2].want, d[2].bound, d[3].want);
}

static const layer_case forward = {"forward",
    {{"logits", LAYER_IN, size_all, .low = -8, .high = 8, .change = fill},
        {"log_p", LAYER_OUT, size_all, .over = 1 << 0},
        {"loss", LAYER_OUT, size_column, .change = fill_scale},
        {"hit", LAYER_OUT | LAYER_OPTIONAL, size_column}},
    call_forward, ref_forward, NULL};

static clprune_status call_backward(const layer_call *c)
{
    const shape *s = c->shape;
    const test_buf labels = test_buf_make(s->batch * sizeof(int32_t), labels_of(s));
    const clprune_status status = clprune_cross_entropy_backward(
        c->context, s->smoothing, SCALE, c->m[0], test_buf_ints(&labels), c->m[2], c->event);
    test_buf_unchanged(&labels, "labels");
    return status;
}

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    cross_entropy_ref_backward(s->batch, s->classes, (double)s->smoothing, (double)SCALE, d->in,
        labels_of(s), d[2].want, d[2].bound);
}

static const layer_case backward = {"backward",
    {{"log_p", LAYER_IN, size_all, .low = -9, .high = 0, .change = fill},
        {"dloss", LAYER_IN, size_column, .change = fill_scale},
        {"dlogits", LAYER_OUT, size_all, .over = 1 << 0}},
    call_backward, ref_backward, NULL};

/* Such a row has no gradient, also with a NaN. */
static const int32_t bad_labels[7] = {0, -1, 4, 5, INT32_MAX, CLPRUNE_IGNORED, 2};

static void fill_nan(float *values)
{
    values[1 * 5 + 2] = NAN;
}

static const shape shapes[] = {{1, 1, 0, 0.1f}, {1, 2, 0, 0}, {7, 3, 1, 0.1f}, {5, 4, 0, 0.5f},
    {8, 10, 0, 0.1f}, {33, 15, 2, 0}, {33, 16, 0, 0.1f}, {6, 17, 3, 0.9f}, {9, 64, 0, 0},
    {6, 100, 1, 0.1f}, {5, 127, 0, 0.1f}, {4, 1000, 5, 0.1f}, {2000, 10, 0, 0.1f}, {0, 10, 0, 0.1f},
    {0, 0, 0, 0}, {7, 5, 2, 0.1f, bad_labels, NULL}, {7, 5, 0, 0.5f, bad_labels, fill_nan}};

/* ---- forward alone --------------------------------------------------------------------------- */

enum { TIES = 37 };

static void fill_ties(float *logits)
{
    for (int i = 0; i < 6 * TIES; i++)
        logits[i] = i % 3 == 0 ? 2.0f : 1.0f;
}

static void fill_special(float *logits)
{
    const float inf = INFINITY;
    const float special[9 * 3] = {1e30f, -1e30f, 0, -3e37f, 3e38f, 0, 1e4f, 1e4f, 1e4f - 1, NAN, 1,
        2, 1, 2, -inf, inf, 1, 2, -inf, -inf, -inf, 100, 0, -100, -1e4f, -1e4f, -1e4f};
    memcpy(logits, special, sizeof special);
}

static void fill_infinity(float *logits)
{
    memcpy(logits, (const float[]){5, -INFINITY, 4}, 3 * sizeof *logits);
}

/* The sum of log_p is -Inf, their mean is not. */
static void fill_masked(float *logits)
{
    for (int i = 0; i < 16; i++)
        logits[i] = i == 0 ? 1e38f : -1e38f;
}

static const int32_t first[3] = {0, 0, 0};
static const struct forward_row {
    const char *name;
    shape s;
} forward_rows[] = {
    /* 37 = 1 mod 3: row 0 has its first 2 at class 0, row 1 at 2, row 2 at 1, and so on. */
    {"ties", {6, TIES, 0, 0.1f, (const int32_t[]){0, 2, 4, 3, 5, 1}, fill_ties}},
    {"special values", {9, 3, 1, 0, (const int32_t[]){0, 1, 0, 2, 1, 0, 0, 0, 0}, fill_special}},
    /* Without smoothing a class of probability 0 does not count; with it the loss is Inf. */
    {"-Inf beside the label", {1, 3, 0, 0, first, fill_infinity}},
    {"-Inf beside the label, smoothed", {1, 3, 0, 0.1f, first, fill_infinity}},
    {"masked, smoothed", {1, 16, 0, 0.1f, first, fill_masked}},
    {"no classes: every label is out of range", {3, 0, 0, 0.1f, first, NULL}},
};

static void slopes(NO_ROW)
{
    static const shape s = {6, 21, 0, 0.1f};
    layer_slopes_of(&forward, &backward, &s, (layer_steps){1e-4, 1e-6, 1e-2, 2e-3, 1e-5});
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < 2 * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / 2];
        layer_add_one(&list, i % 2 == 0 ? &forward : &backward, s,
            "%zu x %zu + %zu, smoothing %g%s", s->batch, s->classes, s->gap, (double)s->smoothing,
            s->labels != NULL ? ", labels out of range" : "");
    }
    for (size_t i = 0; i < COUNT_OF(forward_rows); i++)
        layer_add_one(&list, &forward, &forward_rows[i].s, "%s", forward_rows[i].name);
    test_add(&list, slopes, NULL, "slopes");
    return test_run_on_devices("cross_entropy", &list);
}
