/* Matrices of bf16 and of codes: written, they hold what a store rounded to the nearest does, and
 * nothing else changes; products, linear layers, embeddings and a token loss read them as their
 * values; what is refused. */
#include "clprune/embedding.h"
#include "clprune/token_loss.h"
#include "support/test_product.h"

typedef struct row {
    size_t rows, cols;
    clprune_value_type type;
    size_t gap, outer; /* words between rows; the other side of a product */
} row;

/* Several panels and pieces of 1 MiB, groups that end early, columns that end within a unit. */
static const row rows[] = {
    {66, 192, CLPRUNE_VALUES_CODES4, 0, 33},
    {9, 77, CLPRUNE_VALUES_CODES8, 3, 5},
    {66, 192, CLPRUNE_VALUES_CODES8, 0, 33},
    {40, 96, CLPRUNE_VALUES_BF16, 0, 33},
    {300, 1500, CLPRUNE_VALUES_CODES4, 1, 33},
    {66, 192, CLPRUNE_VALUES_NF4, 0, 33},
    {300, 1500, CLPRUNE_VALUES_NF4, 3, 33},
};

static size_t words_of(const row *r)
{
    const size_t units = (r->cols + 15) / 16, groups = (r->cols + 63) / 64;
    return r->type == CLPRUNE_VALUES_BF16     ? r->cols / 2
           : r->type == CLPRUNE_VALUES_NF4    ? 2 * units + (groups + 3) / 4 + 1
           : r->type == CLPRUNE_VALUES_CODES8 ? 4 * units + groups
                                              : 2 * units + groups;
}

/* A matrix of the type between canaries, its values, and those that it was written from. */
typedef struct coded {
    test_mat words;
    clprune_mat mat;
    float *from, *values;
} coded;

static coded make(const row *r, uint64_t seed)
{
    const size_t ld = words_of(r) + r->gap, count = r->rows * r->cols;
    const bool bf16 = r->type == CLPRUNE_VALUES_BF16;
    coded made = {.from = test_new_normal(seed, count), .values = test_floats(count)};
    made.words = test_mat_make(r->rows, words_of(r), r->gap, NULL);
    made.mat = (clprune_mat){made.words.mat.buffer, made.words.mat.offset * (bf16 ? 2 : 1), r->rows,
        r->cols, ld * (bf16 ? 2 : 1), r->type};
    TEST_OK(clprune_mat_write(test_context(), made.mat, made.from));
    TEST_OK(clprune_mat_read(test_context(), made.mat, made.values));
    return made;
}

static void as_a_store(void **state)
{
    const row *r = *state;
    const clprune_keep keep = {.form = CLPRUNE_FORM_QUANTISED,
        .bits = r->type == CLPRUNE_VALUES_BF16     ? 16
                : r->type == CLPRUNE_VALUES_CODES8 ? 8
                                                   : 4,
        .rounding = CLPRUNE_ROUNDING_NEAREST};
    coded m = make(r, 7);
    (void)test_mat_get(&m.words, "words"); /* canaries */
    test_mat x = test_mat_make(r->rows, r->cols, 0, m.from),
             y = test_mat_make(r->rows, r->cols, 0, NULL);
    clprune_saved *saved = test_new_saved(test_context(), keep, 1, r->rows, r->cols);
    TEST_OK(clprune_saved_store(saved, 0, 1, x.mat, NULL));
    TEST_OK(clprune_saved_restore(saved, 0, 1, y.mat, NULL));
    test_same_floats(
        "values", r->rows, r->cols, m.values, test_mat_get(&y, "y"), "type %d", (int)r->type);
    if (r->rows < 3)
        return;
    const clprune_mat middle = clprune_mat_rows(m.mat, 1, r->rows - 2);
    float *part = test_floats(r->rows * r->cols);
    TEST_OK(clprune_mat_read(test_context(), middle, part));
    test_same_floats(
        "rows", r->rows - 2, r->cols, part, m.values + r->cols, "type %d", (int)r->type);
}

/* c = a op(b), with a beta and without. */
static void products(void **state)
{
    const row *r = *state;
    coded b = make(r, 8);
    const float *words = test_mat_get(&b.words, "words");
    for (int transpose = 0; transpose < 2; transpose++)
        for (int adds = 0; adds < 2; adds++) {
            const gemm_shape s = {
                r->outer, transpose ? r->rows : r->cols, transpose ? r->cols : r->rows};
            float *a = test_new_normal(9, s.m * s.k), *old = test_new_normal(10, s.m * s.n);
            test_mat da = test_mat_make(s.m, s.k, 1, a);
            test_mat dc = test_mat_make(s.m, s.n, 2, adds ? old : NULL);
            TEST_EVENT(clprune_gemm(test_context(), false, transpose != 0, 0.5f, adds ? 1.0f : 0.0f,
                da.mat, b.mat, dc.mat, &event));
            product_close(s, false, transpose != 0, 0.5f, adds ? 1.0f : 0.0f, a, b.values, old,
                test_mat_get(&dc, "c"), "b of codes");
        }
    test_same_floats("words", 1, r->rows * words_of(r), test_mat_get(&b.words, "words"), words,
        "after the products");
}

/* y = x w^T + b and dx = dy w of the layer are those of the matrix of its values. */
static void linear(void **state)
{
    const row *r = *state;
    coded w = make(r, 11);
    const size_t n = r->outer;
    clprune_linear *layer =
        test_new_linear(test_context(), (clprune_linear_desc){.in = r->cols, .out = r->rows});
    test_mat x = test_mat_make(n, r->cols, 0, test_new_normal(12, n * r->cols)),
             dy = test_mat_make(n, r->rows, 0, test_new_normal(13, n * r->rows)),
             b = test_mat_make(1, r->rows, 0, test_new_normal(14, r->rows)),
             dense = test_mat_make(r->rows, r->cols, 0, w.values);
    float *y[2], *dx[2];
    for (int i = 0; i < 2; i++) {
        test_mat out = test_mat_make(n, r->rows, 0, NULL), in = test_mat_make(n, r->cols, 0, NULL);
        const clprune_mat of = i == 0 ? w.mat : dense.mat;
        TEST_OK(clprune_linear_forward(layer, n, x.mat, of, b.mat, out.mat, NULL, NULL));
        TEST_OK(clprune_linear_backward(
            layer, n, NULL, dy.mat, of, &(clprune_grads){.dx = in.mat}, NULL));
        y[i] = test_mat_get(&out, "y");
        dx[i] = test_mat_get(&in, "dx");
    }
    if (clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_VECTOR) {
        test_same_floats("y", n, r->rows, y[0], y[1], "codes and values");
        test_same_floats("dx", n, r->cols, dx[0], dx[1], "codes and values");
    }
}

static void embedding(void **state)
{
    const row *r = *state;
    enum { TOKENS = 7 };
    coded table = make(r, 15);
    int32_t tokens[TOKENS];
    float *want = test_floats(TOKENS * r->cols);
    for (size_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(i * 5 % r->rows);
        memcpy(
            want + i * r->cols, table.values + (size_t)tokens[i] * r->cols, r->cols * sizeof *want);
    }
    test_buf ints = test_buf_make(sizeof tokens, tokens);
    test_mat y = test_mat_make(TOKENS, r->cols, 3, NULL);
    TEST_EVENT(
        clprune_embedding_forward(test_context(), test_buf_ints(&ints), table.mat, y.mat, &event));
    test_same_floats("y", TOKENS, r->cols, test_mat_get(&y, "y"), want, "type %d", (int)r->type);
}

/* The loss and dx of a head are near those of its values, to the bit on CPUs. */
static void head(void **state)
{
    const row shape = {70, 96, *(const clprune_value_type *)*state, 0, 0};
    enum { N = 12 };
    coded w = make(&shape, 16);
    int32_t labels[N];
    for (size_t i = 0; i < N; i++)
        labels[i] = (int32_t)(i * 11 % shape.rows);
    test_buf ints = test_buf_make(sizeof labels, labels);
    test_mat x = test_mat_make(N, shape.cols, 0, test_new_normal(17, N * shape.cols)),
             dense = test_mat_make(shape.rows, shape.cols, 0, w.values);
    float *got[2], *dx[2];
    for (int i = 0; i < 2; i++) {
        test_mat loss = test_mat_make(3, 1, 0, NULL), to = test_mat_make(N, shape.cols, 0, NULL);
        TEST_OK(clprune_token_head(test_context(), 3, 0, 0, 1, 0, x.mat, i == 0 ? w.mat : dense.mat,
            CLPRUNE_NO_MAT, test_buf_ints(&ints), loss.mat, CLPRUNE_NO_MAT, to.mat, CLPRUNE_NO_MAT,
            CLPRUNE_NO_MAT, NULL));
        got[i] = test_mat_get(&loss, "loss");
        dx[i] = test_mat_get(&to, "dx");
    }
    for (size_t i = 0; i < N * shape.cols; i++)
        assert_true(fabsf(dx[0][i] - dx[1][i]) <= 1e-4f);
    for (size_t i = 0; i < 3; i++)
        assert_true(fabsf(got[0][i] - got[1][i]) <= 1e-5f * got[1][i]);
    if (clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_VECTOR) {
        test_same_floats("loss", 3, 1, got[0], got[1], "codes and values");
        test_same_floats("dx", N, shape.cols, dx[0], dx[1], "codes and values");
    }
}

static void refused(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    clprune_context *context = test_context();
    coded m = make(&rows[0], 18);
    const clprune_mat dense = test_new_mat(context, 66, 192), small = test_new_mat(context, 66, 66);
    clprune_mat made, short_row = m.mat;
    TEST_FAILS(
        clprune_mat_create_as(context, CLPRUNE_MEMORY_INPUT, "m", CLPRUNE_VALUES_INT4, 2, 2, &made),
        bad, "type 4");
    assert_null(made.buffer);
    TEST_FAILS(clprune_mat_create_as(
                   context, CLPRUNE_MEMORY_INPUT, "m", CLPRUNE_VALUES_CODES4, 2, SIZE_MAX, &made),
        CLPRUNE_SIZE_OVERFLOW, "overflow");
    TEST_FAILS(clprune_mat_create_as(context, CLPRUNE_MEMORY_INPUT, "m", CLPRUNE_VALUES_CODES4,
                   SIZE_MAX / 8, 64, &made),
        CLPRUNE_SIZE_OVERFLOW, "x 64");
    TEST_FAILS(clprune_mat_write(context, m.mat, NULL), bad, "host is NULL");
    TEST_FAILS(clprune_mat_fill(context, 0, m.mat, NULL), bad, "type 6");
    TEST_FAILS(clprune_mat_copy(context, m.mat, dense, NULL), bad, "type 6");
    TEST_FAILS(clprune_gemm(context, false, true, 1, 0, m.mat, dense, small, NULL), bad, "type 6");
    TEST_FAILS(
        clprune_gemm_batched(context, 2, false, true, 1, 0, dense, 0, m.mat, 0, small, 0, NULL),
        bad, "samples of a batch");
    TEST_FAILS(clprune_gemm(context, false, true, 1, 0, clprune_mat_rows(dense, 0, 2), m.mat,
                   clprune_mat_of(m.mat.buffer, 2, 66), NULL),
        bad, "overlaps");
    short_row.ld = 26; /* of 27 words */
    TEST_FAILS(clprune_mat_write(context, short_row, m.from), CLPRUNE_INVALID_SIZE, "27 words");
    short_row = m.mat;
    short_row.rows = 200;
    TEST_FAILS(clprune_mat_read(context, short_row, m.values), CLPRUNE_INVALID_SIZE, "bytes");
}

/* Bytes as the header says. */
static void sizes(NO_ROW)
{
    static const struct {
        clprune_value_type type;
        size_t bytes;
    } types[] = {{CLPRUNE_VALUES_FP32, 4 * 10 * 100}, {CLPRUNE_VALUES_BF16, 2 * 10 * 100},
        {CLPRUNE_VALUES_CODES8, 4 * 10 * (7 * 4 + 2)},
        {CLPRUNE_VALUES_CODES4, 4 * 10 * (7 * 2 + 2)}, {CLPRUNE_VALUES_NF4, 4 * 10 * (7 * 2 + 2)}};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        clprune_mat made;
        const uint64_t before = test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS);
        TEST_OK(clprune_mat_create_as(
            test_context(), CLPRUNE_MEMORY_PARAMETERS, "w", types[i].type, 10, 100, &made));
        assert_int_equal(
            test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS) - before, types[i].bytes);
        clprune_buffer_release(test_context(), made.buffer);
    }
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const row *r = &rows[i];
        const char *name = test_text("%zu x %zu of type %d", r->rows, r->cols, (int)r->type);
        if (r->type != CLPRUNE_VALUES_NF4) /* test_nf4 */
            test_add(&list, as_a_store, r, "as a store: %s", name);
        test_add(&list, products, r, "products: %s", name);
        test_add(&list, linear, r, "linear: %s", name);
        test_add(&list, embedding, r, "embedding: %s", name);
    }
    static const clprune_value_type heads[] = {CLPRUNE_VALUES_CODES4, CLPRUNE_VALUES_NF4};
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        test_add(&list, head, &heads[i], "head of type %d", (int)heads[i]);
    test_add(&list, refused, NULL, "refused");
    test_add(&list, sizes, NULL, "sizes");
    return test_run_on_devices("mat_values", &list);
}
