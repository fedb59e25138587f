/* The cross-entropy of samples with several labels: losses and gradients with whole logits, and
 * with a linear layer in chunks of rows; ignored labels, labels out of range. */
#include "clprune/token_loss.h"

#include "ref/cross_entropy_ref.h"
#include "ref/token_loss_ref.h"
#include "support/test_layer.h"

typedef enum ids { LEGAL, SOME_IGNORED, ALL_IGNORED, SOME_ILLEGAL } ids;

typedef struct shape {
    size_t batch, rows, classes, cols, gap; /* rows: of a sample */
    float smoothing;
    ids ids;
    float cap; /* of a head */
} shape;

static size_t rows_of(const shape *s)
{
    return s->batch * s->rows;
}

static const int32_t *labels_of(const shape *s)
{
    int32_t *labels = test_alloc((rows_of(s) + 1) * sizeof *labels);
    for (size_t r = 0; r < rows_of(s); r++) {
        labels[r] = s->classes > 0 ? (int32_t)((7 * r + 2) % s->classes) : 0;
        if (s->ids == ALL_IGNORED || (s->ids != LEGAL && (r % 3 == 1 || r == 2)))
            labels[r] = CLPRUNE_IGNORED;
        if (s->ids == SOME_ILLEGAL && r % 5 == 3)
            labels[r] = r % 2 == 0 ? -1 : (int32_t)s->classes;
    }
    return labels;
}

LAYER_SIZE(size_logits, shape, rows_of(s), s->classes, s->gap)
LAYER_SIZE(size_x, shape, rows_of(s), s->cols, s->gap)
LAYER_SIZE(size_w, shape, s->classes, s->cols, s->gap)
LAYER_SIZE(size_b, shape, 1, s->classes, 0)
LAYER_SIZE(size_samples, shape, s->batch, 1, s->gap)
LAYER_SIZE(size_one, shape, 1 + 0 * s->batch, 1, 0)

/* The scale of the gradient is one number; for slopes it is that of each sample's loss. */
#define SCALE 0.25f

static void fill_scale(const void *of, size_t count, float *values)
{
    (void)of;
    for (size_t i = 0; i < count; i++)
        values[i] = SCALE;
}

/* ---- whole logits ---------------------------------------------------------------------------- */

static clprune_status call_forward(const layer_call *c)
{
    const shape *s = c->shape;
    const test_buf labels = test_buf_make(rows_of(s) * sizeof(int32_t), labels_of(s));
    const clprune_status status = clprune_token_loss_forward(c->context, s->batch, s->smoothing,
        c->m[0], test_buf_ints(&labels), c->m[1], c->m[2], c->m[3], c->m[4], c->event);
    test_buf_unchanged(&labels, "labels");
    return status;
}

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    const size_t rows = rows_of(s);
    const int32_t *labels = labels_of(s);
    double *loss = test_doubles(rows), *bound = test_doubles(rows), *hit = test_doubles(rows);
    cross_entropy_ref_forward(rows, s->classes, (double)s->smoothing, d->in, labels, d[1].want,
        d[1].bound, loss, bound, hit);
    const double weight = token_loss_ref_weight(s->batch, rows, labels);
    d[2].want[0] = weight;
    d[2].bound[0] = test_bound(0, 0, 3 * weight);
    token_loss_ref_sums(s->batch, rows, weight, loss, bound, d[3].want, d[3].bound);
    token_loss_ref_sums(s->batch, rows, weight, hit, NULL, d[4].want, d[4].bound);
}

static const layer_case forward = {"forward",
    {{"logits", LAYER_IN, size_logits, .low = -8, .high = 8},
        {"log_p", LAYER_OUT, size_logits, .over = 1 << 0}, {"weight", LAYER_OUT, size_one},
        {"loss", LAYER_OUT, size_samples, .change = fill_scale},
        {"hit", LAYER_OUT | LAYER_OPTIONAL, size_samples}},
    call_forward, ref_forward, NULL};

static clprune_status call_backward(const layer_call *c)
{
    const shape *s = c->shape;
    const test_buf labels = test_buf_make(rows_of(s) * sizeof(int32_t), labels_of(s));
    const clprune_status status = clprune_token_loss_backward(c->context, s->smoothing, SCALE,
        c->m[0], c->m[1], test_buf_ints(&labels), c->m[3], c->event);
    test_buf_unchanged(&labels, "labels");
    return status;
}

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    cross_entropy_ref_backward(rows_of(s), s->classes, (double)s->smoothing,
        (double)SCALE * d[0].in[0], d[1].in, labels_of(s), d[3].want, d[3].bound);
    for (size_t i = 0; i < d[3].count; i++) /* of scale * weight */
        d[3].bound[i] += test_bound(0, 0, d[3].want[i]);
}

static const layer_case backward = {"backward",
    {{"weight", LAYER_IN, size_one, .low = 0.1f, .high = 1},
        {"log_p", LAYER_IN, size_logits, .low = -9, .high = 0},
        {"dloss", LAYER_IN, size_samples, .change = fill_scale},
        {"dlogits", LAYER_OUT, size_logits, .over = 1 << 1}},
    call_backward, ref_backward, NULL};

/* ---- head ------------------------------------------------------------------------------------ */

static clprune_status call_head(const layer_call *c)
{
    const shape *s = c->shape;
    const clprune_mat *m = c->m;
    const test_buf labels = test_buf_make(rows_of(s) * sizeof(int32_t), labels_of(s));
    const clprune_status status =
        clprune_token_head(c->context, s->batch, c->beta, s->smoothing, SCALE, s->cap, m[0], m[1],
            m[2], test_buf_ints(&labels), m[3], m[4], m[5], m[6], m[7], c->event);
    test_buf_unchanged(&labels, "labels");
    return status;
}

/* Two logits that are almost the same may change their order, so hits are left to whole logits. */
static void ref_head(const layer_data *d)
{
    const shape *s = d->shape;
    const token_head_ref head = {s->batch, rows_of(s), s->cols, s->classes, (double)s->smoothing,
        (double)SCALE, (double)s->cap, d[0].in, d[1].in, d[2].in, labels_of(s), d[3].want,
        d[3].bound, d[4].want, d[5].want, d[5].bound, d[6].want, d[6].bound, d[7].want, d[7].bound};
    token_head_ref_run(&head);
    for (size_t n = 0; n < d[4].count; n++)
        d[4].bound[n] = 1e-6;
}

static const layer_case head = {"head",
    {{"x", LAYER_IN, size_x}, {"w", LAYER_IN, size_w}, {"b", LAYER_IN | LAYER_OPTIONAL, size_b},
        {"loss", LAYER_OUT, size_samples}, {"hit", LAYER_OUT | LAYER_OPTIONAL, size_samples},
        {"dx", LAYER_OUT | LAYER_OPTIONAL, size_x, .over = 1 << 0},
        {"dw", LAYER_OUT | LAYER_OPTIONAL | LAYER_SUM | LAYER_NEAR, size_w},
        {"db", LAYER_OUT | LAYER_SUM | LAYER_NEAR, size_b}},
    call_head, ref_head, NULL};

static const shape shapes[] = {{1, 1, 1, 1, 0, 0, LEGAL}, {2, 1, 5, 3, 1, 0.1f, LEGAL},
    {3, 7, 10, 4, 0, 0, LEGAL}, {4, 9, 33, 17, 2, 0.1f, SOME_IGNORED},
    {5, 70, 16, 8, 0, 0, SOME_IGNORED}, {3, 4, 6, 5, 0, 0.2f, ALL_IGNORED},
    {4, 6, 7, 5, 1, 0, SOME_ILLEGAL}, {2, 1000, 11, 6, 0, 0, SOME_IGNORED},
    {300, 3, 9, 4, 0, 0, LEGAL}, {0, 5, 8, 3, 0, 0, LEGAL}, {2, 3, 0, 4, 0, 0, LEGAL}};

/* Chunks of 128 rows: two, and a shorter one. */
static const shape capped[] = {{1, 1, 1, 1, 0, 0, LEGAL, 2}, {3, 7, 10, 4, 0, 0, LEGAL, 0.5f},
    {4, 9, 33, 17, 2, 0.1f, SOME_IGNORED, 3}, {4, 6, 7, 5, 1, 0, SOME_ILLEGAL, 1},
    {0, 5, 8, 3, 0, 0, LEGAL, 1}, {2, 3, 0, 4, 0, 0, LEGAL, 1},
    {2, 70, 16500, 3, 0, 0.1f, SOME_IGNORED, 1}};
static const shape chunks = {2, 150, 16500, 3, 0, 0.1f, SOME_IGNORED};

static void slopes(NO_ROW)
{
    static const shape s = {3, 5, 21, 7, 0, 0.1f, SOME_IGNORED};
    layer_slopes_of(&forward, &backward, &s, (layer_steps){1e-4, 1e-6, 1e-2, 2e-3, 1e-5});
}

static void refused(NO_ROW)
{
    const int32_t zeros[4] = {0};
    const test_buf labels = test_buf_make(sizeof zeros, zeros);
    test_mat z = test_mat_make(4, 5, 0, NULL), one = test_mat_make(1, 1, 0, NULL),
             loss = test_mat_make(3, 1, 0, NULL), w = test_mat_make(6, 5, 0, NULL);
    TEST_FAILS(clprune_token_loss_forward(test_context(), 3, 0, z.mat, test_buf_ints(&labels),
                   z.mat, one.mat, loss.mat, CLPRUNE_NO_MAT, NULL),
        CLPRUNE_INVALID_SIZE, "4 rows");
    TEST_FAILS(clprune_token_loss_forward(test_context(), 0, 0, z.mat, test_buf_ints(&labels),
                   z.mat, one.mat, loss.mat, CLPRUNE_NO_MAT, NULL),
        CLPRUNE_INVALID_SIZE, "4 rows");
    TEST_FAILS(clprune_token_loss_forward(test_context(), 2, 1, z.mat, test_buf_ints(&labels),
                   z.mat, one.mat, loss.mat, CLPRUNE_NO_MAT, NULL),
        CLPRUNE_INVALID_ARGUMENT, "smoothing is 1");
    TEST_FAILS(clprune_token_head(test_context(), 3, 0, 0, 1, 0, z.mat, w.mat, CLPRUNE_NO_MAT,
                   test_buf_ints(&labels), loss.mat, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT,
                   CLPRUNE_NO_MAT, NULL),
        CLPRUNE_INVALID_SIZE, "4 rows");
    TEST_FAILS(clprune_token_head(test_context(), 2, 0, NAN, 1, 0, z.mat, w.mat, CLPRUNE_NO_MAT,
                   test_buf_ints(&labels), loss.mat, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT,
                   CLPRUNE_NO_MAT, NULL),
        CLPRUNE_INVALID_ARGUMENT, "smoothing is nan");
    const float caps[] = {NAN, INFINITY, -1};
    for (size_t i = 0; i < COUNT_OF(caps); i++)
        TEST_FAILS(clprune_token_head(test_context(), 2, 0, 0, 1, caps[i], z.mat, w.mat,
                       CLPRUNE_NO_MAT, test_buf_ints(&labels), loss.mat, CLPRUNE_NO_MAT,
                       CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, CLPRUNE_NO_MAT, NULL),
            CLPRUNE_INVALID_ARGUMENT, "cap is");
    TEST_UNCHANGED(&z, &one, &loss, &w);
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward, &head};
    test_list list = {0};
    for (size_t i = 0; i < 3 * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / 3];
        layer_add_one(&list, cases[i % 3], s, "%zu x %zu rows x %zu, %zu, smoothing %g, labels %d",
            s->batch, s->rows, s->classes, s->cols, (double)s->smoothing, (int)s->ids);
    }
    layer_add_one(&list, &head, &chunks, "chunks of rows");
    for (size_t i = 0; i < COUNT_OF(capped); i++)
        layer_add_one(&list, &head, &capped[i], "a cap of %g, %zu rows x %zu",
            (double)capped[i].cap, rows_of(&capped[i]), capped[i].classes);
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("token_loss", &list);
}
