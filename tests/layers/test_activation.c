/* Activations that keep what they need in a store: the bits of clprune/relu.h, gelu.h and
 * activation.h, on what is kept or restored, in parts, with any beta.
 *
 * Overlaps of arguments with a dense store. */
#include "ref/gelu_ref.h"
#include "support/test.h"

typedef struct activation_row {
    const char *name;
    clprune_activation activation;
    clprune_keep keep;
    size_t batch, rows, cols; /* of the long ones, 8 MiB hold fewer samples */
} activation_row;

static const activation_row rows[] = {
    {"relu, mask", CLPRUNE_ACTIVATION_RELU, {.form = CLPRUNE_FORM_MASK}, 3, 7, 41},
    {"relu, dense", CLPRUNE_ACTIVATION_RELU, {.form = CLPRUNE_FORM_DENSE}, 3, 7, 41},
    {"relu, half of the blocks", CLPRUNE_ACTIVATION_RELU,
        {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f}, 3, 7, 41},
    {"gelu, dense", CLPRUNE_ACTIVATION_GELU, {.form = CLPRUNE_FORM_DENSE}, 3, 7, 41},
    {"gelu, codes of 2 bits", CLPRUNE_ACTIVATION_GELU, {.form = CLPRUNE_FORM_GELU_CODE, .bits = 2},
        3, 7, 41},
    {"gelu, fp16", CLPRUNE_ACTIVATION_GELU,
        {.form = CLPRUNE_FORM_PRUNED, .value_type = CLPRUNE_VALUES_FP16}, 3, 7, 41},
    {"gelu, quantised", CLPRUNE_ACTIVATION_GELU, {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}, 3, 7,
        41},
    {"gelu, 4 bits, several groups", CLPRUNE_ACTIVATION_GELU,
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}, 3, 7, 200},
    {"gelu tanh, 2 bits, groups of 32", CLPRUNE_ACTIVATION_GELU_TANH,
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 2, .group = 32}, 3, 7, 100},
    {"gelu, rotated", CLPRUNE_ACTIVATION_GELU,
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 4, .group = 32, .rotate = true}, 3, 7, 41},
    {"relu, rotated", CLPRUNE_ACTIVATION_RELU,
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 4, .group = 32, .rotate = true}, 3, 7, 41},
    {"gelu, 8 bits, small groups", CLPRUNE_ACTIVATION_GELU,
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 8, .group = 16}, 3, 7, 48},
    {"gelu tanh, dense", CLPRUNE_ACTIVATION_GELU_TANH, {.form = CLPRUNE_FORM_DENSE}, 3, 7, 41},
    {"gelu tanh, codes of 4 bits", CLPRUNE_ACTIVATION_GELU_TANH,
        {.form = CLPRUNE_FORM_GELU_CODE, .bits = 4}, 3, 7, 41},
    {"gelu tanh, quantised", CLPRUNE_ACTIVATION_GELU_TANH,
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 8}, 3, 7, 41},
    {"silu, half of the blocks", CLPRUNE_ACTIVATION_SILU,
        {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f}, 3, 7, 41},
    {"silu, codes of 8 bits", CLPRUNE_ACTIVATION_SILU, {.form = CLPRUNE_FORM_GELU_CODE, .bits = 8},
        3, 7, 41},
    {"silu, quantised", CLPRUNE_ACTIVATION_SILU, {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}, 3, 7,
        41},
    {"tanh, codes of 8 bits", CLPRUNE_ACTIVATION_TANH, {.form = CLPRUNE_FORM_GELU_CODE, .bits = 8},
        3, 7, 41},
    {"tanh, quantised", CLPRUNE_ACTIVATION_TANH, {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}, 3, 7,
        41},
    {"relu, quantised", CLPRUNE_ACTIVATION_RELU, {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}, 3, 7,
        41},
    {"relu6, mask", CLPRUNE_ACTIVATION_RELU6, {.form = CLPRUNE_FORM_MASK}, 3, 7, 41},
    {"relu6, dense", CLPRUNE_ACTIVATION_RELU6, {.form = CLPRUNE_FORM_DENSE}, 3, 7, 41},
    {"hard swish, quantised", CLPRUNE_ACTIVATION_HARD_SWISH,
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}, 3, 7, 41},
    {"sigmoid, dense", CLPRUNE_ACTIVATION_SIGMOID, {.form = CLPRUNE_FORM_DENSE}, 3, 7, 41},
    {"gelu, mean", CLPRUNE_ACTIVATION_GELU, {.form = CLPRUNE_FORM_MEAN}, 3, 7, 41},
    {"relu, dense, several chunks", CLPRUNE_ACTIVATION_RELU, {.form = CLPRUNE_FORM_DENSE}, 5, 400,
        2000},
    {"relu, several chunks", CLPRUNE_ACTIVATION_RELU,
        {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f}, 5, 400, 2000},
    {"gelu, several chunks", CLPRUNE_ACTIVATION_GELU,
        {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f}, 5, 400, 2000},
};

/* f' at what the form keeps, as an array. */
static float *derivative(const activation_row *r, const clprune_saved *saved)
{
    const size_t tokens = r->batch * r->rows;
    test_mat kept = test_mat_make(tokens, r->cols, 0, NULL);
    TEST_OK(clprune_saved_restore(saved, 0, r->batch, kept.mat, NULL));
    float *values = test_mat_get(&kept, "kept");
    if (r->keep.form == CLPRUNE_FORM_MASK || r->keep.form == CLPRUNE_FORM_GELU_CODE)
        return values;
    for (size_t i = 0; i < tokens * r->cols; i++) {
        const double h = (double)values[i];
        const bool six = r->activation == CLPRUNE_ACTIVATION_RELU6;
        double slope = h > 0 && !(six && h >= 6);
        if (r->activation != CLPRUNE_ACTIVATION_RELU && !six)
            (void)activation_ref(r->activation, h, &slope);
        values[i] = (float)slope;
    }
    return values;
}

/* With y recomputed: y is f of what is kept, to the bit; dx and db are as without it. */
static void again(const activation_row *r, const clprune_saved *saved, const test_mat *dy,
    const float *dx, const float *db, const float *old)
{
    clprune_context *context = test_context();
    const size_t tokens = r->batch * r->rows;
    const clprune_mat none = CLPRUNE_NO_MAT;
    test_mat kept = test_mat_make(tokens, r->cols, 0, NULL);
    test_mat want = test_mat_make(tokens, r->cols, 0, NULL);
    test_mat y = test_mat_make(tokens, r->cols, 4, NULL);
    test_mat mdx = test_mat_make(tokens, r->cols, 0, NULL);
    test_mat mdb = test_mat_make(1, r->cols, 0, old);
    const clprune_grads grads = {.dx = mdx.mat, .db = mdb.mat, .beta = 0.5f};
    if (r->keep.form == CLPRUNE_FORM_MASK || r->keep.form == CLPRUNE_FORM_GELU_CODE) {
        TEST_FAILS(clprune_activation_backward_recompute(
                       context, r->activation, 0, r->batch, saved, dy->mat, y.mat, &grads, NULL),
            CLPRUNE_INVALID_ARGUMENT, "keeps the derivative alone");
        return;
    }
    TEST_OK(clprune_saved_restore(saved, 0, r->batch, kept.mat, NULL));
    TEST_OK(clprune_activation_forward(
        context, r->activation, 0, r->batch, kept.mat, none, want.mat, NULL, NULL));
    TEST_EVENT(clprune_activation_backward_recompute(
        context, r->activation, 0, r->batch, saved, dy->mat, y.mat, &grads, &event));
    test_same_floats("y", tokens, r->cols, test_mat_get(&y, "y"), test_mat_get(&want, "f(kept)"),
        "%s, recomputed", r->name);
    test_same_floats(
        "dx", tokens, r->cols, test_mat_get(&mdx, "dx"), dx, "%s, y recomputed", r->name);
    test_same_floats("db", 1, r->cols, test_mat_get(&mdb, "db"), db, "%s, y recomputed", r->name);
}

static void there_and_back(void **state)
{
    const activation_row *r = *state;
    clprune_context *context = test_context();
    const size_t tokens = r->batch * r->rows, count = tokens * r->cols;
    const bool six = r->activation == CLPRUNE_ACTIVATION_RELU6;
    const bool relu = r->activation == CLPRUNE_ACTIVATION_RELU || six;
    clprune_saved *saved = test_new_saved(context, r->keep, r->batch, r->rows, r->cols);
    float *x = test_new_normal(3, count), *b = test_new_normal(4, r->cols);
    for (size_t i = 0; i < count && six; i++)
        x[i] *= 5;
    float *dy = test_new_normal(5, count), *old = test_new_normal(6, r->cols);
    test_mat mx = test_mat_make(tokens, r->cols, 1, x), mb = test_mat_make(1, r->cols, 0, b);
    test_mat my = test_mat_make(tokens, r->cols, 2, NULL);
    test_mat plain_x = test_mat_make(tokens, r->cols, 1, x);
    test_mat plain_y = test_mat_make(tokens, r->cols, 2, NULL);
    /* Forward, first the last sample, then the others: the bits of the function without a store. */
    const size_t parts[2][2] = {{r->batch - 1, 1}, {0, r->batch - 1}};
    for (int i = 0; i < 2; i++) {
        const size_t first = parts[i][0] * r->rows, part = parts[i][1] * r->rows;
        TEST_EVENT(clprune_activation_forward(context, r->activation, parts[i][0], parts[i][1],
            clprune_mat_rows(mx.mat, first, part), mb.mat, clprune_mat_rows(my.mat, first, part),
            saved, &event));
    }
    TEST_OK(clprune_activation_forward(
        context, r->activation, 0, r->batch, plain_x.mat, mb.mat, plain_y.mat, NULL, NULL));
    float *y = test_mat_get(&my, "y"), *plain = test_mat_get(&plain_y, "y");
    test_same_floats("y", tokens, r->cols, y, plain, "%s", r->name);
    float *slope = derivative(r, saved);
    double code_error = 0;
    for (size_t i = 0; i < count; i++) {
        const double h = (double)x[i] + (double)b[i % r->cols];
        double slope_of_h = 0;
        const double want = relu ? fmin(fmax(h, 0), six ? 6 : INFINITY)
                                 : activation_ref(r->activation, h, &slope_of_h);
        if (r->keep.form == CLPRUNE_FORM_GELU_CODE && !relu)
            code_error = fmax(code_error, fabs((double)slope[i] - slope_of_h));
        if (!(fabs((double)y[i] - want) <= 1e-6 * (1 + fabs(want))))
            fail_msg("%s: y[%zu] is %g, not %g", r->name, i, (double)y[i], want);
    }
    /* Codes: the nearest of the levels. */
    if (!(code_error <= (r->keep.bits == 8 ? 0.005 : r->keep.bits == 4 ? 0.06 : 0.21)))
        fail_msg("%s: a slope is off by %g", r->name, code_error);
    /* Backward. */
    test_mat mdy = test_mat_make(tokens, r->cols, 1, dy);
    test_mat mdx = test_mat_make(tokens, r->cols, 3, NULL);
    test_mat mdb = test_mat_make(1, r->cols, 0, old);
    TEST_EVENT(clprune_activation_backward(context, r->activation, 0, r->batch, saved, mdy.mat,
        &(clprune_grads){.dx = mdx.mat, .db = mdb.mat, .beta = 0.5f}, &event));
    float *dx = test_mat_get(&mdx, "dx"), *db = test_mat_get(&mdb, "db");
    for (size_t i = 0; i < count; i++) {
        const double want = (double)slope[i] * (double)dy[i];
        if (!(fabs((double)dx[i] - want) <= 2e-6 * (1 + fabs((double)dy[i]))))
            fail_msg("%s: dx[%zu] is %g, not %g", r->name, i, (double)dx[i], want);
    }
    for (size_t c = 0; c < r->cols; c++) {
        double want = 0.5 * (double)old[c], size = fabs(want);
        for (size_t i = c; i < count; i += r->cols) {
            want += (double)dx[i];
            size += fabs((double)dx[i]);
        }
        if (!(fabs((double)db[c] - want) <= 2 * sqrt((double)tokens) * 6e-8 * size))
            fail_msg("%s: db[%zu] is %g, not %g", r->name, c, (double)db[c], want);
    }
    again(r, saved, &mdy, dx, db, old);
    /* A part alone, in place and without db. */
    test_mat part = test_mat_make(r->rows, r->cols, 0, dy + r->rows * r->cols);
    TEST_OK(clprune_activation_backward(
        context, r->activation, 1, 1, saved, part.mat, &(clprune_grads){.dx = part.mat}, NULL));
    test_same_floats("dx", r->rows, r->cols, test_mat_get(&part, "dx"), dx + r->rows * r->cols,
        "%s, a part", r->name);
    TEST_OK(clprune_activation_backward(context, r->activation, 1, 0, saved,
        clprune_mat_rows(mdy.mat, 0, 0), &(clprune_grads){.dx = clprune_mat_rows(mdx.mat, 0, 0)},
        NULL));
}

static void refused(NO_ROW)
{
    enum { TOKENS = 4, COLS = 9 };
    clprune_context *context = test_context();
    const clprune_keep mask = {.form = CLPRUNE_FORM_MASK},
                       code = {.form = CLPRUNE_FORM_GELU_CODE, .bits = 4},
                       pruned = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f};
    const clprune_activation gelu = CLPRUNE_ACTIVATION_GELU, relu = CLPRUNE_ACTIVATION_RELU;
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, size = CLPRUNE_INVALID_SIZE;
    const clprune_mat x = test_mat_make(TOKENS, COLS, 0, NULL).mat,
                      y = test_mat_make(TOKENS, COLS, 0, NULL).mat;
    clprune_saved *masks = test_new_saved(context, mask, 2, 2, COLS),
                  *codes = test_new_saved(context, code, 2, 2, COLS),
                  *saved = test_new_saved(context, pruned, 2, 2, COLS);
#define FORWARD(in, f, first, count, y, saved)                                                     \
    clprune_activation_forward(in, f, first, count, x, CLPRUNE_NO_MAT, y, saved, NULL)
#define BACKWARD(f, first, count, saved)                                                           \
    clprune_activation_backward(context, f, first, count, saved, x, &(clprune_grads){.dx = y}, NULL)
    TEST_FAILS(FORWARD(context, gelu, 0, 2, y, masks), bad, "another activation");
    TEST_FAILS(FORWARD(context, relu, 0, 2, y, codes), bad, "another activation");
    TEST_FAILS(BACKWARD(gelu, 0, 2, masks), bad, "another activation");
    TEST_FAILS(BACKWARD(relu, 0, 2, codes), bad, "another activation");
    TEST_FAILS(FORWARD(context, (clprune_activation)10, 0, 2, y, saved), bad, "activation is 10");
    TEST_FAILS(FORWARD(context, gelu, 1, 2, y, saved), size, "the store holds");
    TEST_FAILS(FORWARD(context, gelu, 0, 1, y, saved), size, "x is");
    TEST_FAILS(FORWARD(context, gelu, 0, 2, x, saved), bad, "y is x");
    TEST_FAILS(BACKWARD(gelu, 2, 1, saved), size, "the store holds");
    TEST_FAILS(BACKWARD(gelu, 0, 2, NULL), bad, "saved is NULL");
    TEST_FAILS(BACKWARD(gelu, 0, 1, saved), size, "dy is");
    clprune_context *other = test_open_on(clprune_context_queue(context), NULL);
    TEST_FAILS_IN(other, FORWARD(other, gelu, 0, 2, y, saved), bad, "another context");
#undef FORWARD
#undef BACKWARD
}

/* dx over dy, in a buffer and a sub-buffer of it, has the bits of dx in place. */
static void over_sub_buffer(void **state)
{
    const activation_row *r = *state;
    clprune_context *context = test_context();
    const size_t tokens = r->batch * r->rows, count = tokens * r->cols;
    clprune_saved *saved = test_new_saved(context, r->keep, r->batch, r->rows, r->cols);
    const float *values = test_new_normal(6, count);
    const test_mat x = test_mat_make(tokens, r->cols, 0, test_new_normal(5, count));
    const test_mat y = test_mat_make(tokens, r->cols, 0, NULL);
    const test_mat in_place = test_mat_make(tokens, r->cols, 0, values);
    const test_buf both = test_buf_make(count * sizeof(float), values);
    const clprune_mat part = clprune_mat_of(both.buffer, tokens, r->cols);
    const clprune_mat whole = test_buf_alias(&both, tokens, r->cols);
    TEST_OK(clprune_activation_forward(
        context, r->activation, 0, r->batch, x.mat, CLPRUNE_NO_MAT, y.mat, saved, NULL));
    TEST_OK(clprune_activation_backward(context, r->activation, 0, r->batch, saved, in_place.mat,
        &(clprune_grads){.dx = in_place.mat}, NULL));
    TEST_OK(clprune_activation_backward(
        context, r->activation, 0, r->batch, saved, whole, &(clprune_grads){.dx = part}, NULL));
    test_same_floats("dx", tokens, r->cols, test_buf_get(&both, "dx"),
        test_mat_get(&in_place, "dx in place"), "%s", r->name);
}

/* An x of bf16 cannot be stored as it is, and y is not written before that is found. */
static void stored_bf16(NO_ROW)
{
    enum { TOKENS = 4, COLS = 16 };
    static const clprune_keep keeps[] = {{.form = CLPRUNE_FORM_DENSE},
        {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f}, {.form = CLPRUNE_FORM_MEAN},
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 8}};
    const test_mat y = test_mat_make(TOKENS, COLS, 0, test_new_normal(91, TOKENS * COLS));
    clprune_mat x = test_mat_make(TOKENS, COLS, 0, test_new_normal(92, TOKENS * COLS)).mat;
    x.type = CLPRUNE_VALUES_BF16;
    for (size_t i = 0; i < COUNT_OF(keeps); i++) {
        clprune_saved *saved = test_new_saved(test_context(), keeps[i], 2, 2, COLS);
        TEST_FAILS(clprune_activation_forward(test_context(), CLPRUNE_ACTIVATION_GELU, 0, 2, x,
                       CLPRUNE_NO_MAT, y.mat, saved, NULL),
            CLPRUNE_INVALID_ARGUMENT, "x has elements of type");
        TEST_UNCHANGED(&y);
    }
}

/* Empty matrices without a buffer, such as wrapped ones, are neither absent nor the same matrix. */
static void no_samples(NO_ROW)
{
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const clprune_mat empty = clprune_mat_of(NULL, 0, 9), none = CLPRUNE_NO_MAT;
    clprune_saved *saved = test_new_saved(test_context(), dense, 2, 3, 9);
    for (int f = CLPRUNE_ACTIVATION_RELU; f <= (int)CLPRUNE_ACTIVATION_RECIPROCAL; f++)
        for (size_t first = 0; first < 2; first++)
            TEST_OK(clprune_activation_forward(
                test_context(), (clprune_activation)f, first, 0, empty, none, empty, saved, NULL));
}

/* No samples take no scratch, whatever a sample of them would take. */
static void no_scratch(NO_ROW)
{
    const clprune_form forms[] = {CLPRUNE_FORM_QUANTISED, CLPRUNE_FORM_GELU_CODE};
    const clprune_mat empty = clprune_mat_of(NULL, 0, 1024), none = CLPRUNE_NO_MAT;
    clprune_context *context =
        test_open((clprune_context_options){.kernels = clprune_context_kernels(test_context())});
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        const clprune_keep keep = {.form = forms[i], .bits = 4};
        clprune_saved *saved = test_new_saved(context, keep, 1, 4096, 1024);
        TEST_OK(clprune_activation_forward(
            context, CLPRUNE_ACTIVATION_GELU, 0, 0, empty, none, empty, saved, NULL));
        TEST_OK(clprune_activation_backward(context, CLPRUNE_ACTIVATION_GELU, 0, 0, saved, empty,
            &(clprune_grads){.dx = empty}, NULL));
        assert_true(clprune_memory_query(context, CLPRUNE_MEMORY_WORKSPACE).peak < 4096 * 1024 * 4);
    }
}

/* With a DENSE store the kept matrix may be its own memory; nothing else may overlap it. */
static void own_memory(NO_ROW)
{
    enum { SAMPLES = 3, ROWS = 2, COLS = 9, COUNT = 2 };
    const clprune_activation relu = CLPRUNE_ACTIVATION_RELU, gelu = CLPRUNE_ACTIVATION_GELU;
    clprune_context *context = test_context();
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const clprune_mat none = CLPRUNE_NO_MAT;
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    float *values = test_new_normal(7, (SAMPLES + 1) * ROWS * COLS);
    test_mat memory = test_mat_make((SAMPLES + 1) * ROWS, COLS, 0, values);
    test_mat other = test_mat_make(COUNT * ROWS, COLS, 0, values);
    test_mat out = test_mat_make(COUNT * ROWS, COLS, 0, NULL);
    clprune_saved *saved = NULL;
    TEST_OK(clprune_saved_create_in(context, &dense, SAMPLES, ROWS, COLS, memory.mat.buffer,
        memory.mat.offset * sizeof(float), memory.elements * sizeof(float) / 2, &saved));
    (void)test_own_saved(context, saved);
    const clprune_mat own = clprune_saved_dense(saved, 0, COUNT);
    const clprune_mat shifted = clprune_mat_rows(memory.mat, 1, COUNT * ROWS);
    const clprune_mat next = clprune_saved_dense(saved, 1, 1);
    const clprune_mat dy = clprune_mat_rows(other.mat, 0, ROWS);
    const clprune_mat dx = clprune_mat_rows(out.mat, 0, ROWS);
#define FORWARD(f, x, y) clprune_activation_forward(context, f, 0, COUNT, x, none, y, saved, NULL)
#define BACKWARD(f, to_x, to_b)                                                                    \
    clprune_activation_backward(                                                                   \
        context, f, 0, 1, saved, dy, &(clprune_grads){.dx = to_x, .db = to_b}, NULL)
    TEST_FAILS(FORWARD(relu, other.mat, shifted), bad, "y overlaps saved");
    TEST_FAILS(FORWARD(relu, own, out.mat), bad, "x overlaps saved");
    TEST_FAILS(FORWARD(gelu, shifted, out.mat), bad, "x overlaps saved");
    TEST_FAILS(FORWARD(gelu, own, shifted), bad, "overlaps");
    TEST_FAILS(clprune_activation_forward(context, relu, 0, COUNT, other.mat,
                   clprune_mat_rows(next, 0, 1), out.mat, saved, NULL),
        bad, "b overlaps saved");
    for (int f = relu; f <= (int)CLPRUNE_ACTIVATION_RECIPROCAL; f++) {
        TEST_FAILS(BACKWARD((clprune_activation)f, next, none), bad, "dx overlaps saved");
        TEST_FAILS(BACKWARD((clprune_activation)f, dx, clprune_mat_rows(next, 0, 1)), bad,
            "db overlaps saved");
    }
    test_mat_unchanged(&memory, "the store");
    test_mat_unchanged(&other, "x");
    test_mat_unchanged(&out, "y");
    TEST_OK(FORWARD(gelu, own, out.mat));
    test_mat_unchanged(&memory, "the store");
    TEST_OK(FORWARD(relu, other.mat, own));
    TEST_OK(FORWARD(relu, own, own));
    TEST_OK(BACKWARD(relu, dx, none));
    float *kept = test_mat_get(&memory, "the store");
    for (size_t i = 0; i < COUNT * ROWS * COLS; i++)
        assert_true(kept[i] == fmaxf(values[i], 0));
}

/* A DENSE store is read in place: GELU takes no scratch, ReLU 8 MiB and their bits. */
static void dense_scratch(NO_ROW)
{
    enum { SAMPLES = 10, ROWS = 400, COLS = 2000 };
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const size_t most[] = {[CLPRUNE_ACTIVATION_RELU] = 9 << 20, [CLPRUNE_ACTIVATION_TANH] = 0};
    for (size_t f = 0; f < COUNT_OF(most); f++) {
        clprune_context *dry = test_open_dry(NULL, NULL);
        clprune_saved *saved = test_new_saved(dry, dense, SAMPLES, ROWS, COLS);
        const clprune_mat dx = test_new_mat(dry, SAMPLES * ROWS, COLS);
        TEST_OK(clprune_activation_backward(
            dry, (clprune_activation)f, 0, SAMPLES, saved, dx, &(clprune_grads){.dx = dx}, NULL));
        assert_true(clprune_memory_query(dry, CLPRUNE_MEMORY_WORKSPACE).peak <= most[f]);
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, there_and_back, rows, "%s");
    test_add(&list, refused, NULL, "what is refused");
    TEST_ADD_EACH(&list, over_sub_buffer, rows, "over a sub-buffer: %s");
    test_add(&list, stored_bf16, NULL, "an x of bf16 is not stored");
    test_add(&list, no_samples, NULL, "empty matrices without a buffer");
    test_add(&list, no_scratch, NULL, "no samples take no scratch");
    test_add(&list, own_memory, NULL, "the memory of a dense store");
    test_add(&list, dense_scratch, NULL, "scratch of a dense store");
    return test_run_on_devices("activations", &list);
}
