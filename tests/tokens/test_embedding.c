/* Embedding: rows by token, sums in the order of the rows, tokens out of range, parts of an array
 * of tokens. */
#include "clprune/embedding.h"

#include "support/test_layer.h"

typedef enum ids { RANDOM, ONE, DIFFERENT, ILLEGAL } ids;

typedef struct shape {
    size_t rows, cols, gap, vocabulary;
    ids ids;
} shape;

/* Tokens before those of the call. */
enum { BEFORE = 3 };

/* All tokens; the first of the call's rows is that of row BEFORE. */
static const int32_t *tokens_of(const shape *s)
{
    static const int32_t illegal[] = {-1, INT32_MIN, INT32_MAX, -100};
    int32_t *all = test_alloc((s->rows + BEFORE) * sizeof *all);
    test_rng rng = {41};
    for (size_t i = 0; i < s->rows + BEFORE; i++) {
        all[i] = s->ids == ONE         ? (int32_t)s->vocabulary - 1
                 : s->ids == DIFFERENT ? (int32_t)(s->vocabulary - 1 - i % s->vocabulary)
                                       : (int32_t)test_rng_below(&rng, (uint32_t)s->vocabulary);
        if (s->ids == ILLEGAL && i % 3 == 0)
            all[i] = i % 15 == 0 ? (int32_t)s->vocabulary : illegal[i / 3 % 4];
    }
    return all;
}

LAYER_SIZE(size_rows, shape, s->rows, s->cols, s->gap)
LAYER_SIZE(size_table, shape, s->vocabulary, s->cols, s->gap)

static clprune_status call_forward(const layer_call *c)
{
    const shape *s = c->shape;
    const test_buf tokens = test_buf_make((s->rows + BEFORE) * sizeof(int32_t), tokens_of(s));
    const clprune_status status = clprune_embedding_forward(
        c->context, (clprune_ints){tokens.buffer, BEFORE}, c->m[0], c->m[1], c->event);
    test_buf_unchanged(&tokens, "tokens");
    return status;
}

static void ref_forward(const layer_data *d)
{
    const shape *s = d->shape;
    const int32_t *tokens = tokens_of(s) + BEFORE;
    for (size_t i = 0; i < d[1].count; i++) {
        const int32_t t = tokens[i / s->cols];
        const bool legal = t >= 0 && (size_t)t < s->vocabulary;
        d[1].want[i] = legal ? d[0].in[(size_t)t * s->cols + i % s->cols] : NAN;
    }
}

static const layer_case forward = {"forward",
    {{"weight", LAYER_IN, size_table}, {"y", LAYER_OUT, size_rows}}, call_forward, ref_forward,
    NULL};

static clprune_status call_backward(const layer_call *c)
{
    const shape *s = c->shape;
    const test_buf tokens = test_buf_make((s->rows + BEFORE) * sizeof(int32_t), tokens_of(s));
    const clprune_status status = clprune_embedding_backward(
        c->context, c->beta, (clprune_ints){tokens.buffer, BEFORE}, c->m[0], c->m[1], c->event);
    test_buf_unchanged(&tokens, "tokens");
    return status;
}

/* In single precision and in the order of the rows: exact. */
static void ref_backward(const layer_data *d)
{
    const shape *s = d->shape;
    const int32_t *tokens = tokens_of(s) + BEFORE;
    for (size_t i = 0; i < d[0].count; i++) {
        const int32_t t = tokens[i / s->cols];
        if (t < 0 || (size_t)t >= s->vocabulary)
            continue;
        double *sum = &d[1].want[(size_t)t * s->cols + i % s->cols];
        *sum = (double)((float)*sum + (float)d[0].in[i]);
    }
}

static const layer_case backward = {"backward",
    {{"dy", LAYER_IN, size_rows}, {"dweight", LAYER_OUT | LAYER_SUM | LAYER_NEAR, size_table}},
    call_backward, ref_backward, NULL};

static const shape shapes[] = {{1, 1, 0, 1, RANDOM}, {9, 3, 1, 5, RANDOM}, {40, 16, 0, 7, RANDOM},
    {33, 17, 2, 100, RANDOM}, {200, 20, 0, 256, RANDOM}, {1500, 37, 0, 300, RANDOM},
    {70, 5, 0, 4, ONE}, {50, 33, 1, 90, DIFFERENT}, {50, 12, 0, 7, DIFFERENT},
    {64, 9, 3, 11, ILLEGAL}, {7, 2100, 7, 4, RANDOM}, {600, 40, 0, 3, RANDOM}, {0, 8, 0, 5, RANDOM},
    {8, 0, 2, 5, RANDOM}};

/* Sums over the rows are exact, so the slopes of a linear function are, too. */
static void slopes(NO_ROW)
{
    static const shape s = {40, 16, 0, 7, RANDOM};
    layer_slopes_of(&forward, &backward, &s, (layer_steps){1e-2, 1e-8, 1e-2, 1e-3, 1e-6});
}

/* A table without rows has no token: NaN, and nothing to add to. */
static void no_vocabulary(NO_ROW)
{
    const int32_t token = 0;
    const test_buf tokens = test_buf_make(sizeof token, &token);
    test_mat none = test_mat_make(0, 4, 0, NULL),
             y = test_mat_make(1, 4, 0, layer_same_values(4, 1));
    TEST_OK(clprune_embedding_backward(
        test_context(), 1, test_buf_ints(&tokens), y.mat, none.mat, NULL));
    TEST_OK(
        clprune_embedding_forward(test_context(), test_buf_ints(&tokens), none.mat, y.mat, NULL));
    const float *row = test_mat_get(&y, "y");
    for (size_t c = 0; c < 4; c++)
        assert_true(isnan(row[c]));
}

/* The rows behind a table are no tokens: neither read nor added to. */
static void rows_behind(NO_ROW)
{
    const int32_t some[4] = {2, -1, 1, INT32_MIN};
    const test_buf tokens = test_buf_make(sizeof some, some);
    test_mat all = test_mat_make(3, 4, 0, layer_same_values(12, 1));
    test_mat y = test_mat_make(4, 4, 0, NULL),
             dy = test_mat_make(4, 4, 0, layer_same_values(16, 5));
    const clprune_mat table = clprune_mat_rows(all.mat, 0, 2);
    TEST_OK(clprune_embedding_forward(test_context(), test_buf_ints(&tokens), table, y.mat, NULL));
    TEST_OK(
        clprune_embedding_backward(test_context(), 1, test_buf_ints(&tokens), dy.mat, table, NULL));
    const float *rows = test_mat_get(&y, "y"), *sums = test_mat_get(&all, "table");
    for (size_t i = 0; i < 16; i++)
        assert_true(i / 4 == 2 ? rows[i] == 1 : isnan(rows[i]));
    for (size_t i = 0; i < 12; i++)
        assert_true(sums[i] == (i / 4 == 1 ? 6 : 1));
}

static void refused(NO_ROW)
{
    const int32_t zeros[4] = {0};
    const test_buf tokens = test_buf_make(sizeof zeros, zeros);
    test_mat w = test_mat_make(5, 4, 0, NULL), y = test_mat_make(3, 4, 0, NULL);
    TEST_FAILS(clprune_embedding_forward(
                   test_context(), (clprune_ints){tokens.buffer, 2}, w.mat, y.mat, NULL),
        CLPRUNE_INVALID_SIZE, "tokens");
    TEST_FAILS(clprune_embedding_backward(
                   test_context(), 0, (clprune_ints){tokens.buffer, 2}, y.mat, w.mat, NULL),
        CLPRUNE_INVALID_SIZE, "tokens");
    TEST_FAILS(clprune_embedding_forward(
                   test_context(), (clprune_ints){tokens.buffer, SIZE_MAX}, w.mat, y.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, "tokens");
    TEST_UNCHANGED(&w, &y);
}

int main(void)
{
    static const layer_case *const cases[] = {&forward, &backward};
    test_list list = {0};
    for (size_t i = 0; i < 2 * COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / 2];
        layer_add_one(&list, cases[i % 2], s, "%zu x %zu + %zu of %zu, tokens %d", s->rows, s->cols,
            s->gap, s->vocabulary, (int)s->ids);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, no_vocabulary, NULL, "no vocabulary");
    test_add(&list, rows_behind, NULL, "rows behind a table");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("embedding", &list);
}
