/* Biases of attention's scores: y and all gradients against the reference, one bias and several,
 * with shared heads of k and v, lengths, causal or not, dropout; hidden keys; bad sizes; slopes. */
#include "clprune/attention.h"

#include "tokens/attention_shape.h"

LAYER_SIZE(size_bias, shape,
    s->ref.biases * s->ref.heads * (s->ref.keys > 0 ? s->ref.keys : s->ref.rows), s->ref.rows,
    s->gap)

static clprune_attention_desc biased(const shape *s, clprune_mat bias)
{
    clprune_attention_desc desc = desc_of(s);
    desc.bias = bias;
    return desc;
}

static clprune_status call_forward(const layer_call *c)
{
    const shape *s = c->shape;
    const clprune_mat *m = c->m;
    const clprune_attention_desc desc = biased(s, m[3]);
    return clprune_attention_forward(
        c->context, &desc, s->ref.batch, m[0], m[1], m[2], m[4], c->event);
}

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    attention_ref_shape with = s->ref;
    with.bias = d[3].in;
    attention_ref_forward(&with, d[0].in, d[1].in, d[2].in, d[4].want, d[4].bound);
    loosen(&d[4]);
}

static const layer_case forward = {"forward",
    {{"q", LAYER_IN, size_q}, {"k", LAYER_IN, size_k}, {"v", LAYER_IN, size_k},
        {"bias", LAYER_IN, size_bias}, {"y", LAYER_OUT, size_y}},
    call_forward, ref_forward, NULL};

static clprune_status call_backward(const layer_call *c)
{
    const shape *s = c->shape;
    const clprune_mat *m = c->m;
    const clprune_attention_desc desc = biased(s, m[3]);
    const clprune_status status = clprune_attention_backward(
        c->context, &desc, s->ref.batch, m[0], m[1], m[2], m[4], m[5], m[6], m[7], NULL);
    return status != CLPRUNE_SUCCESS ? status
                                     : clprune_attention_backward_bias(c->context, &desc,
                                           s->ref.batch, m[0], m[1], m[2], m[4], m[8], c->event);
}

static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    double *const grads[4] = {d[5].want, d[6].want, d[7].want, d[8].want};
    double *const bounds[4] = {d[5].bound, d[6].bound, d[7].bound, d[8].bound};
    attention_ref_shape with = s->ref;
    with.bias = d[3].in;
    attention_ref_backward(&with, d[0].in, d[1].in, d[2].in, d[4].in, grads, bounds);
    for (size_t i = 5; i < (is_paired() ? 9 : 8); i++) /* that of biases not on tensor cores */
        loosen(&d[i]);
}

static const layer_case backward = {"backward",
    {{"q", LAYER_IN, size_q}, {"k", LAYER_IN, size_k}, {"v", LAYER_IN, size_k},
        {"bias", LAYER_IN, size_bias}, {"dy", LAYER_IN, size_y}, {"dq", LAYER_OUT, size_q},
        {"dk", LAYER_OUT, size_k}, {"dv", LAYER_OUT, size_k}, {"dbias", LAYER_OUT, size_bias}},
    call_backward, ref_backward, NULL};

static void slopes(NO_ROW)
{
    if (is_paired())
        skip(); /* y goes in steps */
    static const int32_t lengths[] = {3, 5};
    static const shape few[] = {{{1, 9, 2, 2, 4, false, .first = 1, .biases = 2}, 0},
        {{2, 5, 2, 1, 3, true, .biases = 1}, 0},
        {{2, 5, 2, 1, 3, false, .lengths = lengths, .biases = 2}, 0}};
    for (size_t i = 0; i < COUNT_OF(few); i++)
        layer_slopes_of(&forward, &backward, &few[i], (layer_steps){1e-5, 1e-7, 1e-2, 1e-3, 1e-4});
}

/* Keys with a bias of -1e4 have no part in y, and no gradient. */
static void hidden(NO_ROW)
{
    enum { ROWS = 70, COLS = 4, SEEN = 66 };
    float *bias = test_floats(ROWS * ROWS);
    for (size_t i = 0; i < ROWS * ROWS; i++)
        bias[i] = i / ROWS < SEEN ? 0 : -1e4f;
    const int32_t length = SEEN;
    const test_buf lengths = test_buf_make(sizeof length, &length);
    const test_mat x = test_mat_make(ROWS, COLS, 0, test_new_normal(3, ROWS * COLS)),
                   dy = test_mat_make(ROWS, COLS, 0, test_new_normal(4, ROWS * COLS)),
                   all = test_mat_make(ROWS, ROWS, 0, bias);
    const clprune_attention_desc ways[] = {
        {.rows = ROWS, .heads = 1, .cols = COLS, .bias = all.mat},
        {.rows = ROWS, .heads = 1, .cols = COLS, .lengths = test_buf_ints(&lengths)}};
    const float *got[2][4];
    for (size_t w = 0; w < 2; w++) {
        test_mat y[4];
        for (size_t i = 0; i < 4; i++)
            y[i] = test_mat_make(ROWS, COLS, 0, NULL);
        TEST_OK(clprune_attention_forward(
            test_context(), &ways[w], 1, x.mat, x.mat, x.mat, y[0].mat, NULL));
        TEST_OK(clprune_attention_backward(test_context(), &ways[w], 1, x.mat, x.mat, x.mat, dy.mat,
            y[1].mat, y[2].mat, y[3].mat, NULL));
        for (size_t i = 0; i < 4; i++)
            got[w][i] = test_mat_get(&y[i], "y and gradients");
    }
    for (size_t i = 0; i < 4; i++)
        for (size_t e = 0; e < ROWS * COLS; e++)
            assert_true(fabsf(got[0][i][e] - got[1][i][e]) < 1e-5f);
}

static void bad_sizes(NO_ROW)
{
    clprune_context *context = test_context();
    const test_mat x = test_mat_make(6, 4, 0, test_new_normal(3, 24)),
                   y = test_mat_make(6, 4, 0, NULL), bias = test_mat_make(6, 3, 0, NULL),
                   odd = test_mat_make(7, 3, 0, NULL), thin = test_mat_make(6, 2, 0, NULL);
    clprune_attention_desc desc = {.rows = 3, .heads = 2, .cols = 2, .bias = odd.mat};
    const clprune_status bad = CLPRUNE_INVALID_SIZE;
    TEST_FAILS(clprune_attention_forward(context, &desc, 2, x.mat, x.mat, x.mat, y.mat, NULL), bad,
        "bias has 7 rows, expected a multiple of 2 heads of 3");
    desc.bias = thin.mat;
    TEST_FAILS(clprune_attention_forward(context, &desc, 2, x.mat, x.mat, x.mat, y.mat, NULL), bad,
        "bias");
    desc.bias = bias.mat;
    TEST_FAILS(clprune_attention_backward_bias(
                   context, &desc, 2, x.mat, x.mat, x.mat, x.mat, odd.mat, NULL),
        bad, "bias and dbias have 6 and 7 rows");
    TEST_FAILS(clprune_attention_backward_bias(
                   context, &desc, 2, x.mat, x.mat, x.mat, x.mat, bias.mat, NULL),
        CLPRUNE_INVALID_ARGUMENT, "bias");
    desc.bias = CLPRUNE_NO_MAT;
    TEST_FAILS(clprune_attention_backward_bias(
                   context, &desc, 2, x.mat, x.mat, x.mat, x.mat, bias.mat, NULL),
        bad, "bias has 0 rows, expected a multiple of 2 heads of 3");
}

int main(void)
{
    static const int32_t some[] = {5, 1, 7, 33, 32, 16, 70, 90, 0, -3};
    static const shape shapes[] = {{{1, 1, 1, 1, 1, false, .biases = 1}, 0},
        {{9, 7, 2, 1, 3, false, .first = 1, .lengths = some, .biases = 2}, 1},
        {{7, 49, 3, 3, 8, false, .first = 2, .biases = 4}, 0},
        {{3, 70, 2, 1, 8, true, .rate = 0.25, .seed = 9, .first = 4, .biases = 1}, 2},
        {{2, 197, 1, 1, 8, false, .queries = 40, .biases = 2}, 0},
        {{3, 20, 2, 1, 8, true, .first = 1, .keys = 90, .past = 40, .biases = 2}, 1},
        {{3, 70, 2, 2, 4, false, .lengths = some, .keys = 33, .biases = 1, .cap = 1.5}, 0},
        {{2, 75, 2, 1, 8, true, .biases = 2, .cap = 0.5}, 0},
        {{40, 5, 1, 1, 4, false, .biases = 1}, 0}, {{1, 9, 2, 2, 4, false, .biases = 3}, 0},
        {{1, 1030, 1, 1, 8, true, .biases = 1}, 0}, {{0, 8, 2, 2, 4, false, .biases = 1}, 0}};
    static const shape on_tensor_cores[] = {
        {{4, 37, 2, 2, 16, false, .queries = 20, .first = 3, .lengths = some, .biases = 2}, 2},
        {{1, 75, 2, 1, 32, true, .biases = 1, .cap = 2}, 0},
        {{2, 20, 1, 1, 16, true, .keys = 70, .past = 40, .biases = 1}, 0}};
    test_list list = {0};
    const bool rounded = getenv("CLPRUNE_PRECISION") != NULL;
    const shape *all = rounded ? on_tensor_cores : shapes;
    for (size_t i = 0; i < (rounded ? COUNT_OF(on_tensor_cores) : COUNT_OF(shapes)); i++) {
        const attention_ref_shape *s = &all[i].ref;
        if (!rounded && test_small() && s->rows > 70)
            continue;
        for (size_t w = 0; w < 2; w++)
            layer_add_one(&list, w == 0 ? &forward : &backward, &all[i],
                "%zu x %zu, %zu biases, %zu heads of %zu%s", s->batch, s->rows, s->biases, s->heads,
                s->cols, s->causal ? ", causal" : "");
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, hidden, NULL, "hidden keys");
    test_add(&list, bad_sizes, NULL, "bad sizes");
    return test_run_on_devices("attention_bias", &list);
}
