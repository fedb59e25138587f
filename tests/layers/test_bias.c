/* The internal bias additions and sums over rows or features. */
#include "nn/layers/bias.h"
#include "nn/layers/sums.h"
#include "support/test_layer.h"

LAYER_CALL(column_sum, clprune__column_sum(c->context, c->beta, m[0], m[1], c->event))

static void ref_column_sum(const layer_data *d)
{
    layer_set_sums(&d[1], d->rows, d->in, NULL);
}

static const layer_case column_sum = {"column sum",
    {{"x", LAYER_IN, layer_all}, {"sum", LAYER_OUT | LAYER_SUM, layer_row}}, call_column_sum,
    ref_column_sum, NULL};

LAYER_CALL(bias_rows, clprune__bias_rows(c->context, m[0], m[1], c->event))

static void ref_bias_rows(const layer_data *d)
{
    for (size_t i = 0; i < d[1].count; i++)
        layer_set(&d[1], i, d[1].in[i] + d[0].in[i % d->cols], 0, 0);
}

static const layer_case bias_rows = {"bias of rows",
    {{"b", LAYER_IN, layer_row}, {"y", LAYER_IN | LAYER_OUT, layer_all}}, call_bias_rows,
    ref_bias_rows, NULL};

/* The rows of a shape as samples of so many tokens, what is left over cut off. */
typedef struct token_shape {
    const layer_shape *all;
    size_t tokens;
} token_shape;

LAYER_SIZE(
    size_samples, token_shape, s->all->rows / s->tokens * s->tokens, s->all->cols, s->all->gap)
LAYER_SIZE(size_bias, token_shape, 1, s->tokens, 0)

LAYER_CALL(token_bias_grad, clprune__token_bias_grad(c->context, c->beta, m[0].rows / m[1].cols,
                                m[1].cols, m[0], m[1], c->event))

static void ref_token_bias_grad(const layer_data *d)
{
    layer_set_token_sums(&d[1], d->rows, d->cols, d->in, NULL);
}

static const layer_case token_bias_grad = {"token bias gradient",
    {{"dy", LAYER_IN, size_samples}, {"db", LAYER_OUT | LAYER_SUM, size_bias}},
    call_token_bias_grad, ref_token_bias_grad, NULL};

LAYER_CALL(bias_tokens,
    clprune__bias_tokens(c->context, m[1].rows / m[0].cols, m[0].cols, m[0], m[1], c->event))

static void ref_bias_tokens(const layer_data *d)
{
    for (size_t i = 0; i < d[1].count; i++)
        layer_set(&d[1], i, d[1].in[i] + d->in[i / d[1].cols % d->cols], 0, 0);
}

static const layer_case bias_tokens = {"bias of tokens",
    {{"b", LAYER_IN, size_bias}, {"y", LAYER_IN | LAYER_OUT, size_samples}}, call_bias_tokens,
    ref_bias_tokens, NULL};

/* These functions are internal, and so not in the table of test_invalid_many.c. */
static void invalid(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat x = test_mat_make(6, 5, 0, NULL), row = test_mat_make(1, 5, 0, NULL);
    const clprune_mat inside = clprune_mat_rows(x.mat, 2, 1);
    assert_int_equal(clprune__column_sum(NULL, 0, x.mat, row.mat, NULL), bad);
    TEST_FAILS(clprune__column_sum(context, 0, x.mat, x.mat, NULL), size, "sum is");
    TEST_FAILS(clprune__column_sum(context, 0, x.mat, inside, NULL), bad, "sum overlaps x");
    assert_int_equal(clprune__token_bias_grad(NULL, 0, 1, 5, x.mat, row.mat, NULL), bad);
    TEST_FAILS(clprune__token_bias_grad(context, 0, 2, 5, x.mat, row.mat, NULL), size, "dy is");
    TEST_FAILS(clprune__token_bias_grad(context, 0, 2, 3, x.mat, row.mat, NULL), size, "db is");
    TEST_FAILS(clprune__token_bias_grad(context, 0, SIZE_MAX, 3, x.mat, row.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    assert_int_equal(clprune__bias_rows(NULL, row.mat, x.mat, NULL), bad);
    TEST_FAILS(clprune__bias_rows(context, x.mat, x.mat, NULL), size, "b is");
    TEST_FAILS(clprune__bias_rows(context, inside, x.mat, NULL), bad, "y overlaps b");
    assert_int_equal(clprune__bias_tokens(NULL, 1, 5, row.mat, x.mat, NULL), bad);
    TEST_FAILS(clprune__bias_tokens(context, 2, 5, row.mat, x.mat, NULL), size, "y is");
    TEST_FAILS(clprune__bias_tokens(context, 2, 3, row.mat, x.mat, NULL), size, "b is");
    TEST_FAILS(clprune__bias_tokens(context, SIZE_MAX, 3, row.mat, x.mat, NULL),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    test_mat_unchanged(&x, "x");
    test_mat_unchanged(&row, "row");
}

int main(void)
{
    static const size_t tokens[] = {1, 3, 12};
    static token_shape shapes[3 * LAYER_SHAPES];
    test_list list = {0};
    layer_add(&list, &column_sum);
    layer_add(&list, &bias_rows);
    for (size_t i = 0; i < 3 * LAYER_SHAPES; i++) {
        const layer_shape *s = &layer_shapes[i / 3];
        shapes[i] = (token_shape){s, tokens[i % 3]};
        if (!layer_is_wanted(s))
            continue;
        layer_add_one(&list, &token_bias_grad, &shapes[i], "%zu, %zu x %zu + %zu", tokens[i % 3],
            s->rows, s->cols, s->gap);
        layer_add_one(&list, &bias_tokens, &shapes[i], "%zu, %zu x %zu + %zu", tokens[i % 3],
            s->rows, s->cols, s->gap);
    }
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("bias", &list);
}
