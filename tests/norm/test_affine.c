/* Affine: forward, backward and, in front of a linear layer, without its output. */
#include "nn/layers/sums.h"
#include "support/test_layer.h"

LAYER_CALL(forward, clprune_affine_forward(c->context, m[0], m[1], m[2], m[3], c->event))

static void ref_forward(const layer_data *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const double scaled = d[1].in[i % d->cols] * d[0].in[i], beta = d[2].in[i % d->cols];
        layer_set(&d[3], i, scaled + beta, 2, fabs(scaled) + fabs(beta));
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN, layer_all}, {"alpha", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f},
        {"beta", LAYER_IN, layer_row}, {"y", LAYER_OUT, layer_all, .over = 1 << 0}},
    call_forward, ref_forward, NULL};

LAYER_CALL(backward, clprune_affine_backward(c->context, c->beta, 0, m[0], m[1], m[2], m[3],
                         &(clprune_affine){.alpha = m[4], .beta = m[5]}, c->event))

static void ref_backward(const layer_data *d)
{
    for (size_t i = 0; i < d->count; i++)
        layer_set(&d[3], i, d[1].in[i % d->cols] * d[2].in[i], 0, 0);
    layer_set_dots(&d[4], d->rows, d[0].in, d[2].in);
    layer_set_sums(&d[5], d->rows, d[2].in, NULL);
}

static const layer_case backward = {"backward",
    {{"x", LAYER_IN, layer_all}, {"alpha", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f},
        {"dy", LAYER_IN, layer_all}, {"dx", LAYER_OUT, layer_all, .over = 1 << 2},
        {"dalpha", LAYER_OUT | LAYER_SUM, layer_row}, {"dbeta", LAYER_OUT | LAYER_SUM, layer_row}},
    call_backward, ref_backward, NULL};

/* dx has a factor of its own: alpha * dy + dx_beta * dx. */
static void added(void **state)
{
    static const float betas[] = {0, 1, 0.5f};
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols;
    const float *x = test_new_normal(11, count), *dy = test_new_normal(14, count);
    const float *alpha = test_new_uniform(12, 0.5f, 1.5f, s->cols);
    test_mat mx = test_mat_make(s->rows, s->cols, s->gap, x);
    test_mat ma = test_mat_make(1, s->cols, 0, alpha);
    test_mat mdy = test_mat_make(s->rows, s->cols, s->gap + 1, dy), sums[2][3];
    for (size_t i = 0; i < 3; i++) {
        test_mat dx = test_mat_make(s->rows, s->cols, s->gap + i, i == 0 ? NULL : x);
        for (size_t k = 0; k < 2; k++)
            sums[k][i] = test_mat_make(1, s->cols, i, NULL);
        TEST_OK(clprune_affine_backward(test_context(), 0, betas[i], mx.mat, ma.mat, mdy.mat,
            dx.mat, &(clprune_affine){.alpha = sums[0][i].mat, .beta = sums[1][i].mat}, NULL));
        const float *got = test_mat_get(&dx, "dx");
        for (size_t k = 0; k < count; k++)
            if (got[k] != fmaf(alpha[k % s->cols], dy[k], betas[i] * x[k]))
                fail_msg("dx_beta %g: element %zu is %.9g", (double)betas[i], k, (double)got[k]);
        layer_same("dalpha", &sums[0][0], &sums[0][i]);
        layer_same("dbeta", &sums[1][0], &sums[1][i]);
    }
    TEST_UNCHANGED(&mx, &ma, &mdy);
}

/* ---- in front of a linear layer, without its output: h = (alpha * x + beta) w^T -------------- */

LAYER_CALL(weights, clprune_affine_weights(c->context, m[0], m[1], m[2], c->event))

static void ref_weights(const layer_data *d)
{
    for (size_t i = 0; i < d[1].count; i++)
        layer_set(&d[2], i, d[0].in[i % d->cols] * d[1].in[i], 0, 0);
}

static const layer_case weights = {"weights",
    {{"alpha", LAYER_IN, layer_row}, {"w", LAYER_IN, layer_all},
        {"scaled", LAYER_OUT, layer_all, .over = 1 << 1}},
    call_weights, ref_weights, NULL};

LAYER_CALL(centre, clprune_affine_centre(c->context, m[0], m[1], c->event))

static void ref_centre(const layer_data *d)
{
    for (size_t i = 0; i < d[1].count; i++)
        layer_set(&d[1], i, d[1].in[i] - d[0].in[i % d->cols], 0, 0);
}

static const layer_case centre = {"centre",
    {{"centre", LAYER_IN, layer_row}, {"x", LAYER_IN | LAYER_OUT, layer_all}}, call_centre,
    ref_centre, NULL};

LAYER_CALL(product, clprune_affine_backward_product(c->context, c->beta, m[0],
                        &(clprune_affine){.alpha = m[1], .beta = m[2]}, m[3], m[4], m[5],
                        &(clprune_affine){.alpha = m[6], .beta = m[7]}, c->event))

static void ref_product(const layer_data *d)
{
    const double *w = d[0].in, *sums = d[4].in, *product = d[5].in;
    double *sum = test_doubles(d->cols), *size = test_doubles(d->cols),
           *scaled = test_doubles(d->count);
    for (size_t i = 0; i < d->count; i++) {
        const size_t c = i % d->cols;
        const double alpha = d[1].in[c], beta = d[2].in[c], middle = d[3].in[c];
        const double rows = sums[i / d->cols], first = alpha * product[i];
        layer_set(&d[5], i, first + (beta + alpha * middle) * rows, 3,
            fabs(first) + (fabs(beta) + fabs(alpha * middle)) * fabs(rows));
        sum[c] += w[i] * (product[i] + middle * rows);
        size[c] += fabs(w[i]) * (fabs(product[i]) + fabs(middle * rows));
        scaled[i] = w[i] * rows;
    }
    for (size_t c = 0; c < d->cols; c++)
        layer_set(&d[6], c, sum[c], 2 * d->rows, size[c]);
    layer_set_sums(&d[7], d->rows, scaled, NULL);
}

/* dw: first dh^T (x - centre). */
static const layer_case product = {"product",
    {{"w", LAYER_IN, layer_all}, {"alpha", LAYER_IN, layer_row, .low = 0.5f, .high = 1.5f},
        {"beta", LAYER_IN, layer_row}, {"centre", LAYER_IN, layer_row},
        {"sums", LAYER_IN, layer_column}, {"dw", LAYER_IN | LAYER_OUT, layer_all},
        {"dalpha", LAYER_OUT | LAYER_SUM, layer_row}, {"dbeta", LAYER_OUT | LAYER_SUM, layer_row}},
    call_product, ref_product, NULL};

/* Both layers over 11 rows x, for slopes. */
static void ref_both_forward(const layer_data *d)
{
    for (size_t i = 0; i < d[4].count; i++) {
        d[4].want[i] = 0;
        for (size_t k = 0; k < d->cols; k++)
            d[4].want[i] += (d[2].in[k] * d[0].in[i / d[4].cols * d->cols + k] + d[3].in[k]) *
                            d[1].in[i % d[4].cols * d->cols + k];
    }
}

static const layer_case both_forward = {"affine and linear",
    {{"x", LAYER_IN, layer_linear_x}, {"w", LAYER_IN, layer_all}, {"alpha", LAYER_IN, layer_row},
        {"beta", LAYER_IN, layer_row}, {"h", LAYER_OUT, layer_linear_y}},
    NULL, ref_both_forward, NULL};

static clprune_status call_both(const layer_call *c)
{
    const layer_shape *s = c->shape;
    test_mat sums = test_mat_make(1, s->rows, 0, NULL);
    TEST_OK(clprune__column_sum(c->context, 0, c->m[5], sums.mat, NULL));
    TEST_OK(clprune_affine_centre(c->context, c->m[4], c->m[0], NULL));
    TEST_OK(clprune_gemm(c->context, true, false, 1, 0, c->m[5], c->m[0], c->m[6], NULL));
    return clprune_affine_backward_product(c->context, c->beta, c->m[1],
        &(clprune_affine){.alpha = c->m[2], .beta = c->m[3]}, c->m[4], sums.mat, c->m[6],
        &(clprune_affine){.alpha = c->m[7], .beta = c->m[8]}, c->event);
}

static const layer_case both_backward = {"affine and linear",
    {{"x", LAYER_IN | LAYER_OUT, layer_linear_x}, {"w", LAYER_IN, layer_all},
        {"alpha", LAYER_IN, layer_row}, {"beta", LAYER_IN, layer_row},
        {"centre", LAYER_IN, layer_row, .low = -2, .high = 3}, {"dh", LAYER_IN, layer_linear_y},
        {"dw", LAYER_OUT, layer_all}, {"dalpha", LAYER_OUT, layer_row},
        {"dbeta", LAYER_OUT, layer_row}},
    call_both, NULL, NULL};

static void slopes(NO_ROW)
{
    static const layer_shape alone = {9, 21, 0}, linear = {5, 7, 0};
    layer_slopes_of(&forward, &backward, &alone, (layer_steps){1e-4, 1e-8, 1e-2, 1e-3, 1e-6});
    layer_slopes_of(&both_forward, &both_backward, &linear, (layer_steps){1e-4, 0, 0, 0, 1e-6});
}

int main(void)
{
    test_list list = {0};
    layer_add(&list, &forward);
    layer_add(&list, &backward);
    layer_add(&list, &weights);
    layer_add(&list, &centre);
    layer_add(&list, &product);
    layer_add_shapes(&list, added, "added to dx");
    test_add(&list, slopes, NULL, "slopes");
    return test_run_on_devices("affine", &list);
}
