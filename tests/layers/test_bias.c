/* The internal bias additions and sums over rows or features, over all shapes. */
#include "nn/layers/bias.h"
#include "nn/layers/sums.h"
#include "support/test_layer.h"

/* want[c] of sum_r x[r][c], with its bound. */
static void ref_column_sum(size_t rows, size_t cols, const float *x, double *want, double *bound)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0, size = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += (double)x[r * cols + c];
            size += fabs((double)x[r * cols + c]);
        }
        want[c] = sum;
        bound[c] = test_bound(rows, size, sum);
    }
}

static void column_sum(void **state)
{
    const layer_shape *s = *state;
    float *values = test_new_normal(51, s->rows * s->cols);
    double *want = layer_new(s->cols), *bound = layer_new(s->cols);
    ref_column_sum(s->rows, s->cols, values, want, bound);
    test_mat x = test_mat_make(s->rows, s->cols, s->gap, values);
    test_mat sum = test_mat_make(1, s->cols, 0, NULL), again = test_mat_make(1, s->cols, 2, NULL);
    cl_event event = NULL;
    TEST_OK(clprune__column_sum(test_context(), 0, x.mat, sum.mat, &event));
    layer_event(event);
    layer_check("sum", &sum, want, bound, "column sum");
    TEST_OK(clprune__column_sum(test_context(), 0, x.mat, again.mat, NULL));
    layer_same("sum", &sum, &again);
    for (size_t c = 0; c < s->cols; c++)
        want[c] *= 2, bound[c] *= 3; /* of the sum as it was found, and of the second one */
    TEST_OK(clprune__column_sum(test_context(), 1, x.mat, sum.mat, &event));
    layer_event(event);
    layer_check("sum", &sum, want, bound, "column sum, added");
    test_mat_unchanged(&x, "x");
}

static void bias_rows(void **state)
{
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols;
    float *values = test_new_normal(52, count), *bias = test_new_normal(53, s->cols);
    double *want = layer_new(count), *bound = layer_new(count);
    for (size_t i = 0; i < count; i++) {
        want[i] = (double)values[i] + (double)bias[i % s->cols];
        bound[i] = test_bound(0, 0, want[i]);
    }
    test_mat y = test_mat_make(s->rows, s->cols, s->gap, values);
    test_mat b = test_mat_make(1, s->cols, 0, bias);
    cl_event event = NULL;
    TEST_OK(clprune__bias_rows(test_context(), b.mat, y.mat, &event));
    layer_event(event);
    layer_check("y", &y, want, bound, "bias of rows");
    test_mat_unchanged(&b, "b");
}

/* The rows of a shape as samples of 3 tokens, what is left over cut off; and of 1 token. */
static void tokens(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    for (size_t p = 1; p <= 3; p += 2) {
        const size_t batch = s->rows / p, rows = batch * p, count = rows * s->cols;
        float *values = test_new_normal(54, count), *bias = test_new_normal(55, p);
        double *want = layer_new(count), *bound = layer_new(count);
        double *db_want = layer_new(p), *db_size = layer_new(p), *db_bound = layer_new(p);
        for (size_t i = 0; i < count; i++) {
            const size_t q = i / s->cols % p;
            want[i] = (double)values[i] + (double)bias[q];
            bound[i] = test_bound(0, 0, want[i]);
            db_want[q] += (double)values[i];
            db_size[q] += fabs((double)values[i]);
        }
        for (size_t q = 0; q < p; q++)
            db_bound[q] = test_bound(batch * s->cols, db_size[q], db_want[q]);
        test_mat y = test_mat_make(rows, s->cols, s->gap, values);
        test_mat b = test_mat_make(1, p, 0, bias);
        test_mat db = test_mat_make(1, p, 0, NULL), again = test_mat_make(1, p, 0, NULL);
        cl_event event = NULL;
        TEST_OK(clprune__token_bias_grad(context, 0, batch, p, y.mat, db.mat, &event));
        layer_event(event);
        layer_check("db", &db, db_want, db_bound, "token bias gradient");
        TEST_OK(clprune__token_bias_grad(context, 0, batch, p, y.mat, again.mat, NULL));
        layer_same("db", &db, &again);
        test_mat_unchanged(&y, "dy");
        TEST_OK(clprune__bias_tokens(context, batch, p, b.mat, y.mat, &event));
        layer_event(event);
        layer_check("y", &y, want, bound, "bias of tokens");
        test_mat_unchanged(&b, "b");
    }
}

static void invalid(void **state)
{
    (void)state;
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
    test_list list = {0};
    layer_add_shapes(&list, column_sum, "column sum");
    layer_add_shapes(&list, bias_rows, "bias of rows");
    layer_add_shapes(&list, tokens, "tokens");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("bias", &list);
}
