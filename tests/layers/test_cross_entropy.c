/* Cross-entropy: values over batches x classes x smoothing, ties, labels out of range, special
 * values, large logits, derivatives, aliasing, repeatability. */
#include "ref/cross_entropy_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    size_t batch, classes, gap;
    float smoothing;
} shape;

static const shape shapes[] = {{1, 1, 0, 0.1f}, {1, 2, 0, 0}, {7, 3, 1, 0.1f}, {5, 4, 0, 0.5f},
    {8, 10, 0, 0.1f}, {33, 15, 2, 0}, {33, 16, 0, 0.1f}, {6, 17, 3, 0.9f}, {9, 64, 0, 0},
    {6, 100, 1, 0.1f}, {5, 127, 0, 0.1f}, {4, 1000, 5, 0.1f}, {2000, 10, 0, 0.1f}, {0, 10, 0, 0.1f},
    {0, 0, 0, 0}};

/* Labels that run through the classes. */
static int32_t *labels_new(size_t batch, size_t classes)
{
    int32_t *labels = test_alloc(batch * sizeof *labels);
    for (size_t n = 0; n < batch; n++)
        labels[n] = (int32_t)((7 * n + 2) % classes);
    return labels;
}

typedef struct outcome {
    double *log_p, *log_p_bound, *loss, *loss_bound, *hit, *hit_bound;
} outcome;

static outcome outcome_new(size_t batch, size_t classes)
{
    return (outcome){layer_new(batch * classes), layer_new(batch * classes), layer_new(batch),
        layer_new(batch), layer_new(batch), layer_new(batch)};
}

/* Forward into separate matrices, then in place and without hits: equal to the reference. */
static void check_forward(size_t batch, size_t classes, size_t gap, float smoothing,
    const float *logits, const int32_t *labels, const char *what)
{
    clprune_context *context = test_context();
    double *wide = layer_widen(batch * classes, logits);
    outcome want = outcome_new(batch, classes);
    cross_entropy_ref_forward(batch, classes, (double)smoothing, wide, labels, want.log_p,
        want.log_p_bound, want.loss, want.loss_bound, want.hit);
    test_mat in = test_mat_make(batch, classes, gap, logits);
    test_mat log_p = test_mat_make(batch, classes, gap + 1, NULL);
    test_mat loss = test_mat_make(batch, 1, gap, NULL), loss2 = test_mat_make(batch, 1, 0, NULL);
    test_mat hit = test_mat_make(batch, 1, gap + 1, NULL);
    test_buf label_buffer = test_buf_make(batch * sizeof *labels, labels);
    TEST_EVENT(clprune_cross_entropy_forward(
        context, smoothing, in.mat, label_buffer.buffer, log_p.mat, loss.mat, hit.mat, &event));
    layer_check("log_p", &log_p, want.log_p, want.log_p_bound, what);
    layer_check("loss", &loss, want.loss, want.loss_bound, what);
    layer_check("hit", &hit, want.hit, want.hit_bound, what);
    test_mat_unchanged(&in, "logits");
    TEST_OK(clprune_cross_entropy_forward(
        context, smoothing, in.mat, label_buffer.buffer, in.mat, loss2.mat, CLPRUNE_NO_MAT, NULL));
    layer_check("log_p in place", &in, want.log_p, want.log_p_bound, what);
    test_buf_unchanged(&label_buffer, "labels");
    layer_same("log_p in place", &log_p, &in);
    layer_same("loss", &loss, &loss2);
}

static void forward(void **state)
{
    const shape *s = *state;
    float *logits = test_new_uniform(61, -8, 8, s->batch * s->classes);
    int32_t *labels = labels_new(s->batch, s->classes);
    check_forward(s->batch, s->classes, s->gap, s->smoothing, logits, labels, "random");
}

static void backward(void **state)
{
    const shape *s = *state;
    clprune_context *context = test_context();
    const size_t count = s->batch * s->classes;
    const float scale = 0.25f;
    float *log_p = test_new_uniform(62, -9, 0, count);
    double *wide = layer_widen(count, log_p), *want = layer_new(count), *bound = layer_new(count);
    int32_t *labels = labels_new(s->batch, s->classes);
    cross_entropy_ref_backward(
        s->batch, s->classes, (double)s->smoothing, (double)scale, wide, labels, want, bound);
    test_mat in = test_mat_make(s->batch, s->classes, s->gap, log_p);
    test_mat out = test_mat_make(s->batch, s->classes, s->gap + 1, NULL);
    test_buf label_buffer = test_buf_make(s->batch * sizeof *labels, labels);
    TEST_EVENT(clprune_cross_entropy_backward(
        context, s->smoothing, scale, in.mat, label_buffer.buffer, out.mat, &event));
    layer_check("dlogits", &out, want, bound, "backward");
    test_mat_unchanged(&in, "log_p");
    TEST_OK(clprune_cross_entropy_backward(
        context, s->smoothing, scale, in.mat, label_buffer.buffer, in.mat, NULL));
    layer_same("dlogits in place", &out, &in);
    test_buf_unchanged(&label_buffer, "labels");
}

static void ties(NO_ROW)
{
    enum { CLASSES = 37 };
    float logits[6 * CLASSES];
    for (int i = 0; i < 6 * CLASSES; i++)
        logits[i] = i % 3 == 0 ? 2.0f : 1.0f;
    /* 37 = 1 mod 3: row 0 has its first 2 at class 0, row 1 at 2, row 2 at 1, and so on. */
    const int32_t labels[6] = {0, 2, 4, 3, 5, 1};
    check_forward(6, CLASSES, 0, 0.1f, logits, labels, "ties");
}

static void bad_labels(NO_ROW)
{
    float *logits = test_new_normal(63, 7 * 5);
    const int32_t labels[7] = {0, -1, 4, 5, INT32_MAX, INT32_MIN, 2};
    check_forward(7, 5, 2, 0.1f, logits, labels, "labels out of range");
    /* Such a row has no gradient, also with a NaN. */
    logits[1 * 5 + 2] = NAN;
    double *wide = layer_widen(7 * 5, logits), want[7 * 5], bound[7 * 5];
    cross_entropy_ref_backward(7, 5, 0.5, 1, wide, labels, want, bound);
    test_mat m = test_mat_make(7, 5, 0, logits);
    test_buf label_buffer = test_buf_make(sizeof labels, labels);
    TEST_OK(clprune_cross_entropy_backward(
        test_context(), 0.5f, 1, m.mat, label_buffer.buffer, m.mat, NULL));
    layer_check("dlogits", &m, want, bound, "labels out of range");
}

/* No classes: every label is out of range. */
static void no_classes(NO_ROW)
{
    const int32_t labels[3] = {0, 0, 0};
    check_forward(3, 0, 0, 0.1f, NULL, labels, "no classes");
}

static void special_values(NO_ROW)
{
    const float inf = INFINITY;
    const float logits[9 * 3] = {1e30f, -1e30f, 0, -3e37f, 3e38f, 0, 1e4f, 1e4f, 1e4f - 1, NAN, 1,
        2, 1, 2, -inf, inf, 1, 2, -inf, -inf, -inf, 100, 0, -100, -1e4f, -1e4f, -1e4f};
    const int32_t labels[9] = {0, 1, 0, 2, 1, 0, 0, 0, 0};
    const float one[3] = {5, -inf, 4};
    const int32_t first = 0;
    check_forward(9, 3, 1, 0, logits, labels, "special values");
    /* Without smoothing a class of probability 0 does not count; with it the loss is Inf. */
    check_forward(1, 3, 0, 0, one, &first, "-Inf beside the label");
    check_forward(1, 3, 0, 0.1f, one, &first, "-Inf beside the label, smoothed");
    float masked[16]; /* the sum of log_p is -Inf, their mean is not */
    for (int i = 0; i < 16; i++)
        masked[i] = i == 0 ? 1e38f : -1e38f;
    check_forward(1, 16, 0, 0.1f, masked, &first, "masked, smoothed");
}

typedef struct problem {
    size_t batch, classes;
    float smoothing;
    const int32_t *labels;
} problem;

static double loss_ref(void *user, const double *logits)
{
    const problem *p = user;
    double *loss = layer_new(p->batch), sum = 0;
    cross_entropy_ref_forward(p->batch, p->classes, (double)p->smoothing, logits, p->labels, NULL,
        NULL, loss, NULL, NULL);
    for (size_t n = 0; n < p->batch; n++)
        sum += loss[n];
    return sum / (double)p->batch;
}

static double loss_device(void *user, const double *logits)
{
    const problem *p = user;
    float *narrow = layer_narrow(p->batch * p->classes, logits);
    test_mat m = test_mat_make(p->batch, p->classes, 0, narrow);
    test_mat losses = test_mat_make(p->batch, 1, 0, NULL);
    test_buf label_buffer = test_buf_make(p->batch * sizeof *p->labels, p->labels);
    TEST_OK(clprune_cross_entropy_forward(test_context(), p->smoothing, m.mat, label_buffer.buffer,
        m.mat, losses.mat, CLPRUNE_NO_MAT, NULL));
    float *loss = test_mat_get(&losses, "loss");
    double sum = 0;
    for (size_t n = 0; n < p->batch; n++)
        sum += (double)loss[n];
    return sum / (double)p->batch;
}

static void slopes(NO_ROW)
{
    int32_t *labels = labels_new(6, 21);
    problem p = {6, 21, 0.1f, labels};
    const size_t count = p.batch * p.classes;
    float *logits = test_new_uniform(64, -3, 3, count);
    double *wide = layer_widen(count, logits), *log_p = layer_new(count), *grad = layer_new(count);
    cross_entropy_ref_forward(
        p.batch, p.classes, (double)p.smoothing, wide, labels, log_p, NULL, NULL, NULL, NULL);
    cross_entropy_ref_backward(
        p.batch, p.classes, (double)p.smoothing, 1 / (double)p.batch, log_p, labels, grad, NULL);
    layer_slopes("reference", loss_ref, &p, count, wide, grad, 1e-4, 1e-7);
    layer_slopes("device", loss_device, &p, count, wide, grad, 1e-2, 2e-3);
}

static void invalid_smoothing(NO_ROW)
{
    static const float smoothings[] = {-0.1f, 1.0f, 2.0f, NAN, INFINITY};
    const int32_t zeros[4] = {0};
    test_mat x = test_mat_make(4, 6, 0, NULL), p = test_mat_make(4, 6, 0, NULL);
    test_mat loss = test_mat_make(4, 1, 0, NULL);
    const test_buf labels = test_buf_make(sizeof zeros, zeros);
    for (size_t i = 0; i < COUNT_OF(smoothings); i++) {
        TEST_FAILS(clprune_cross_entropy_forward(test_context(), smoothings[i], x.mat,
                       labels.buffer, p.mat, loss.mat, CLPRUNE_NO_MAT, NULL),
            CLPRUNE_INVALID_ARGUMENT, "smoothing");
        TEST_FAILS(clprune_cross_entropy_backward(
                       test_context(), smoothings[i], 1, p.mat, labels.buffer, x.mat, NULL),
            CLPRUNE_INVALID_ARGUMENT, "smoothing");
    }
    test_mat *mats[] = {&x, &p, &loss};
    for (size_t i = 0; i < COUNT_OF(mats); i++)
        test_mat_unchanged(mats[i], "argument of a refused call");
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i];
        test_add(&list, forward, s, "forward %zu x %zu + %zu, smoothing %g", s->batch, s->classes,
            s->gap, (double)s->smoothing);
        test_add(&list, backward, s, "backward %zu x %zu + %zu, smoothing %g", s->batch, s->classes,
            s->gap, (double)s->smoothing);
    }
    test_add(&list, ties, NULL, "ties");
    test_add(&list, bad_labels, NULL, "labels out of range");
    test_add(&list, no_classes, NULL, "no classes");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid_smoothing, NULL, "invalid smoothing");
    return test_run_on_devices("cross_entropy", &list);
}
