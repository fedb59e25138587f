/* The statistics of batch normalisation: moments over all shapes, in chunks and from partial
 * moments, far from 0 and with NaN; inv and running statistics; invalid arguments. */
#include "nn/norm/batch_norm_private.h"
#include "ref/batch_norm_ref.h"
#include "support/test_layer.h"

#define NONE CLPRUNE_NO_MAT

/* Moments at once, twice; in two chunks; and from the partial moments of a producer. */
static void moments(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    float *values = test_new_normal(21, s->rows * s->cols);
    double *wide = layer_widen(s->rows * s->cols, values);
    const size_t cols = s->cols, first = s->rows / 3, group = 5, groups = (s->rows + 4) / 5;
    double *mean = test_doubles(cols), *m2 = test_doubles(cols);
    double *mean_bound = test_doubles(cols), *m2_bound = test_doubles(cols);
    batch_norm_ref_moments(s->rows, cols, wide, mean, m2);
    batch_norm_ref_moments_bound(s->rows, cols, wide, mean_bound, m2_bound);
    test_mat x = test_mat_make(s->rows, cols, s->gap, values), out[6];
    for (int i = 0; i < 6; i++)
        out[i] = test_mat_make(1, cols, (size_t)i, NULL);
    TEST_EVENT(clprune_batch_norm_moments(context, 0, x.mat, out[0].mat, out[1].mat, &event));
    layer_check("mean", &out[0], mean, mean_bound, "at once");
    layer_check("m2", &out[1], m2, m2_bound, "at once");
    TEST_OK(clprune_batch_norm_moments(context, 0, x.mat, out[2].mat, out[3].mat, NULL));
    layer_same("mean", &out[0], &out[2]);
    layer_same("m2", &out[1], &out[3]);
    TEST_OK(clprune_batch_norm_moments(
        context, 0, clprune_mat_rows(x.mat, 0, first), out[2].mat, out[3].mat, NULL));
    TEST_EVENT(clprune_batch_norm_moments(context, first,
        clprune_mat_rows(x.mat, first, s->rows - first), out[2].mat, out[3].mat, &event));
    layer_check("mean", &out[2], mean, mean_bound, "two chunks");
    layer_check("m2", &out[3], m2, m2_bound, "two chunks");

    float *partial = test_new_normal(28, 2 * groups * cols);
    for (size_t g = 0; g < groups; g++) {
        const size_t rows = g + 1 < groups ? group : s->rows - g * group;
        double *part = test_doubles(2 * cols);
        batch_norm_ref_moments(rows, cols, wide + g * group * cols, part, part + cols);
        for (size_t i = 0; i < 2 * cols; i++)
            partial[2 * g * cols + i] = (float)part[i];
    }
    test_mat made = test_mat_make(2 * groups, cols, s->gap, partial);
    TEST_EVENT(clprune__batch_norm_merge(
        context, 0, s->rows, group, made.mat, out[4].mat, out[5].mat, &event));
    layer_check("mean", &out[4], mean, mean_bound, "partial moments");
    layer_check("m2", &out[5], m2, m2_bound, "partial moments");
    TEST_UNCHANGED(&x, &made);
}

/* A group may be larger than all rows, by far: then it is the only one. */
static void one_group(NO_ROW)
{
    enum { COLS = 21, ROWS = 10 };
    float *moments = test_new_uniform(36, 1, 2, 2 * (size_t)COLS);
    test_mat partial = test_mat_make(2, COLS, 1, moments);
    test_mat out[] = {test_mat_make(1, COLS, 0, NULL), test_mat_make(1, COLS, 0, NULL)};
    const size_t groups[] = {ROWS, ROWS + 1, SIZE_MAX - ROWS, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        TEST_OK(clprune__batch_norm_merge(
            test_context(), 0, ROWS, groups[i], partial.mat, out[0].mat, out[1].mat, NULL));
        for (size_t k = 0; k < 2; k++) {
            float *got = test_mat_get(&out[k], k == 0 ? "mean" : "m2");
            assert_memory_equal(got, moments + k * COLS, COLS * sizeof(float));
        }
    }
}

/* inv and running statistics from given moments; PyTorch's variance of a batch is m2 / rows, that
 * of the running one m2 / (rows - 1). */
static void statistics(NO_ROW)
{
    enum { COLS = 21, ROWS = 13 };
    clprune_context *context = test_context();
    float *mean = test_new_normal(31, COLS), *m2 = test_new_uniform(32, 0, 20, COLS);
    float *old_mean = test_new_normal(33, COLS), *old_var = test_new_uniform(34, 0, 3, COLS);
    double inv[COLS], new_mean[COLS], new_var[COLS], eval[COLS], bound[4][COLS];
    m2[4] = 0; /* a constant channel */
    for (size_t c = 0; c < COLS; c++) {
        const double wide_m2 = (double)m2[c];
        inv[c] = 1 / sqrt(wide_m2 / ROWS + (double)1e-5f);
        new_mean[c] = 0.9 * (double)old_mean[c] + 0.1 * (double)mean[c];
        new_var[c] = 0.9 * (double)old_var[c] + 0.1 * wide_m2 / (ROWS - 1);
        eval[c] = 1 / sqrt((double)old_var[c] + (double)1e-5f);
        bound[0][c] = 8 * 0x1p-24 * inv[c]; /* a square root and a division of any device */
        bound[1][c] = test_bound(4, fabs((double)old_mean[c]) + fabs((double)mean[c]), new_mean[c]);
        bound[2][c] = test_bound(6, new_var[c], new_var[c]);
        bound[3][c] = 8 * 0x1p-24 * eval[c];
    }
    test_mat in[] = {test_mat_make(1, COLS, 0, mean), test_mat_make(1, COLS, 1, m2)};
    test_mat out = test_mat_make(1, COLS, 0, NULL), again = test_mat_make(1, COLS, 0, m2);
    test_mat running[] = {test_mat_make(1, COLS, 2, old_mean), test_mat_make(1, COLS, 0, old_var)};
    TEST_EVENT(clprune_batch_norm_inverse(context, 1e-5f, running[1].mat, out.mat, &event));
    layer_check("inv", &out, eval, bound[3], "of the running variance");
    test_mat_unchanged(&running[1], "var");
    TEST_EVENT(clprune_batch_norm_statistics(
        context, ROWS, 1e-5f, in[0].mat, in[1].mat, out.mat, NULL, &event));
    layer_check("inv", &out, inv, bound[0], "without running statistics");
    TEST_OK(clprune_batch_norm_statistics(context, ROWS, 1e-5f, in[0].mat, again.mat, again.mat,
        &(clprune_batch_norm_running){
            .momentum = 0.1f, .mean = running[0].mat, .var = running[1].mat},
        NULL));
    layer_same("inv over m2", &out, &again);
    layer_check("running_mean", &running[0], new_mean, bound[1], "momentum 0.1");
    layer_check("running_var", &running[1], new_var, bound[2], "momentum 0.1");
    TEST_UNCHANGED(&in[0], &in[1]);
}

/* Means far from 0: m2 keeps its accuracy, where sums of squares would lose every digit. A channel
 * with a NaN is NaN, the others are not. */
static void far_means(NO_ROW)
{
    enum { ROWS = 3000, COLS = 18, FAR = 5 };
    float *x = test_new_normal(35, (size_t)ROWS * COLS);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        x[i] += i % COLS < FAR ? 1e4f : 0;
    x[7 * COLS + 6] = NAN;
    double *wide = layer_widen((size_t)ROWS * COLS, x), mean[COLS], m2[COLS];
    batch_norm_ref_moments(ROWS, COLS, wide, mean, m2);
    test_mat in = test_mat_make(ROWS, COLS, 0, x);
    test_mat out[] = {test_mat_make(1, COLS, 0, NULL), test_mat_make(1, COLS, 0, NULL)};
    TEST_OK(clprune_batch_norm_moments(test_context(), 0, in.mat, out[0].mat, out[1].mat, NULL));
    float *got_mean = test_mat_get(&out[0], "mean"), *got_m2 = test_mat_get(&out[1], "m2");
    for (size_t c = 0; c < COLS; c++) {
        const double off = fabs((double)got_m2[c] - m2[c]) / m2[c];
        const double mean_off = fabs((double)got_mean[c] - mean[c]) / (fabs(mean[c]) + 1);
        if (c == 6 ? !isnan(got_mean[c]) || !isnan(got_m2[c])
                   : !(off < (c < FAR ? 1e-4 : 1e-6)) || !(mean_off < 1e-6))
            fail_msg("channel %zu: mean %g instead of %g, m2 %g instead of %g", c,
                (double)got_mean[c], mean[c], (double)got_m2[c], m2[c]);
    }
}

/* Rows; test_invalid_many.c has the matrices, test_invalid_scalars.c eps and momentum. */
static void invalid(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, over = CLPRUNE_SIZE_OVERFLOW;
    test_mat x = test_mat_make(12, 6, 0, NULL), out[5];
    for (size_t i = 0; i < 5; i++)
        out[i] = test_mat_make(1, 6, 0, NULL);
    const clprune_mat mean = out[0].mat, m2 = out[1].mat, inv = out[2].mat, var = out[4].mat;
    cl_event event = NULL;
#define MERGE(before, rows, group)                                                                 \
    clprune__batch_norm_merge(context, before, rows, group, x.mat, mean, m2, &event)
#define STATISTICS(rows, spread)                                                                   \
    clprune_batch_norm_statistics(context, rows, 1, mean, m2, inv,                                 \
        &(clprune_batch_norm_running){0, out[3].mat, spread}, &event)
    TEST_FAILS(clprune_batch_norm_moments(context, SIZE_MAX, x.mat, mean, m2, &event), over, NULL);
    TEST_FAILS(MERGE(0, 30, 0), bad, "group_rows is 0");
    TEST_FAILS(MERGE(0, 31, 5), CLPRUNE_INVALID_SIZE, "partial is");
    TEST_FAILS(MERGE(SIZE_MAX, 30, 5), over, "rows before");
    TEST_FAILS(STATISTICS(1, var), bad, "rows is 1, expected");
    TEST_FAILS(STATISTICS(9, NONE), CLPRUNE_INVALID_SIZE, "running->var is");
    assert_null(event);
    for (size_t i = 0; i < 5; i++)
        test_mat_unchanged(&out[i], "output of a refused call");
}

int main(void)
{
    test_list list = {0};
    layer_add_shapes(&list, moments, "moments");
    test_add(&list, statistics, NULL, "statistics");
    test_add(&list, far_means, NULL, "means far from 0");
    test_add(&list, one_group, NULL, "one group");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("batch_norm_statistics", &list);
}
