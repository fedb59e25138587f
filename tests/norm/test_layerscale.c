/* LayerScale: forward, backward with the bias gradients of the layer below, and without the
 * branch's last linear layer. */
#include "nn/layers/sums.h"
#include "support/test_layer.h"

LAYER_CALL(forward, clprune_layerscale_forward(c->context, m[0], m[1], m[2], m[3], c->event))

static void ref_forward(const layer_data *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const double branch = d[2].in[i % d->cols] * d[1].in[i];
        layer_set(&d[3], i, d[0].in[i] + branch, 2, fabs(d[0].in[i]) + fabs(branch));
    }
}

static const layer_case forward = {"forward",
    {{"x", LAYER_IN | LAYER_RESIDUAL, layer_all}, {"t", LAYER_IN, layer_all},
        {"ls", LAYER_IN, layer_row, .low = -1, .high = 1},
        {"y", LAYER_OUT, layer_all, .over = 1 << 0 | 1 << 1}},
    call_forward, ref_forward, NULL};

LAYER_CALL(backward,
    clprune_layerscale_backward(c->context, c->beta, m[0], m[1], m[2], m[3],
        &(clprune_layerscale_grads){.dls = m[4], .db = m[5], .db_tokens = m[6]}, c->event))

static void ref_backward(const layer_data *d)
{
    for (size_t i = 0; i < d->count; i++)
        layer_set(&d[3], i, d[1].in[i % d->cols] * d[2].in[i], 0, 0);
    layer_set_dots(&d[4], d->rows, d[0].in, d[2].in);
    layer_set_sums(&d[5], d->rows, d[3].want, d[3].bound);
    layer_set_token_sums(&d[6], d->rows, d->cols, d[3].want, d[3].bound);
}

static const layer_case backward = {"backward",
    {{"t", LAYER_IN, layer_all}, {"ls", LAYER_IN, layer_row, .low = -1, .high = 1},
        {"dy", LAYER_IN, layer_all}, {"dt", LAYER_OUT, layer_all, .over = 1 << 0},
        {"dls", LAYER_OUT | LAYER_SUM, layer_row},
        {"db", LAYER_OUT | LAYER_SUM | LAYER_OPTIONAL, layer_row},
        {"db_tokens", LAYER_OUT | LAYER_SUM | LAYER_OPTIONAL, layer_token_row}},
    call_backward, ref_backward, NULL};

/* db has the bits of the linear layer's pass over dt. */
static void bias_gradient(void **state)
{
    const layer_shape *s = *state;
    const size_t count = s->rows * s->cols;
    test_mat t = test_mat_make(s->rows, s->cols, s->gap, test_new_normal(32, count));
    test_mat ls = test_mat_make(1, s->cols, 0, test_new_uniform(33, -1, 1, s->cols));
    test_mat dy = test_mat_make(s->rows, s->cols, s->gap + 1, test_new_normal(34, count));
    test_mat dls = test_mat_make(1, s->cols, 0, NULL), db = test_mat_make(1, s->cols, 2, NULL);
    TEST_OK(clprune_layerscale_backward(test_context(), 0, t.mat, ls.mat, dy.mat, t.mat,
        &(clprune_layerscale_grads){.dls = dls.mat, .db = db.mat}, NULL));
    layer_same_bias_gradient(&t, &db);
}

/* The forward pass with the biases b and b_tokens added to t, which the backward pass knows the sum
 * of. */
static void ref_biased(const layer_data *d)
{
    layer_data with_bias[4] = {d[0], d[1], d[2], d[5]};
    double *t = test_doubles(d->count);
    for (size_t i = 0; i < d->count; i++)
        t[i] = d[1].in[i] + d[3].in[i % d->cols] + d[4].in[i / d->cols % d[4].cols];
    with_bias[1].in = t;
    ref_forward(with_bias);
}

static const layer_case biased = {"forward with biases",
    {{"x", LAYER_IN | LAYER_RESIDUAL, layer_all}, {"t", LAYER_IN, layer_all},
        {"ls", LAYER_IN, layer_row, .low = -1, .high = 1},
        {"b", LAYER_IN, layer_row, .change = layer_zeros},
        {"b_tokens", LAYER_IN, layer_token_row, .change = layer_zeros},
        {"y", LAYER_OUT, layer_all}},
    NULL, ref_biased, NULL};

/* ---- without the branch's last linear layer: y = x + ls * (g w^T + b) ------------------------ */

LAYER_CALL(weights, clprune_layerscale_weights(c->context, m[0], m[1], m[2], c->event))

static void ref_weights(const layer_data *d)
{
    for (size_t i = 0; i < d[1].count; i++)
        layer_set(&d[2], i, d[0].in[i / d[1].cols] * d[1].in[i], 0, 0);
}

static const layer_case weights = {"weights",
    {{"ls", LAYER_IN, layer_column, .low = -1, .high = 1}, {"w", LAYER_IN, layer_all},
        {"scaled", LAYER_OUT, layer_all, .over = 1 << 1}},
    call_weights, ref_weights, NULL};

LAYER_CALL(product, clprune_layerscale_backward_product(
                        c->context, c->beta, m[0], m[1], m[2], m[3], m[4], m[5], c->event))

static void ref_product(const layer_data *d)
{
    const double *w = d[0].in, *b = d[1].in, *ls = d[2].in, *dw = d[4].in, *db = d[5].in;
    for (size_t r = 0; r < d->rows; r++) {
        double sum = b[r] * db[r], size = fabs(sum);
        for (size_t i = r * d->cols; i < (r + 1) * d->cols; i++) {
            sum += w[i] * dw[i];
            size += fabs(w[i] * dw[i]);
            layer_set(&d[4], i, ls[r] * dw[i], 0, 0);
        }
        layer_set(&d[3], r, sum, d->cols + 1, size);
        layer_set(&d[5], r, ls[r] * db[r], 0, 0);
    }
}

/* dw and db: first those of y without ls. */
static const layer_case product = {"product",
    {{"w", LAYER_IN, layer_all}, {"b", LAYER_IN, layer_column},
        {"ls", LAYER_IN, layer_column, .low = -1, .high = 1},
        {"dls", LAYER_OUT | LAYER_SUM, layer_column}, {"dw", LAYER_IN | LAYER_OUT, layer_all},
        {"db", LAYER_IN | LAYER_OUT, layer_column}},
    call_product, ref_product, NULL};

/* Both layers over 11 rows g, for slopes. */
static void ref_both_forward(const layer_data *d)
{
    for (size_t i = 0; i < d[4].count; i++) {
        const size_t o = i % d[4].cols;
        double t = d[2].in[o];
        for (size_t k = 0; k < d->cols; k++)
            t += d[0].in[i / d[4].cols * d->cols + k] * d[1].in[o * d->cols + k];
        d[4].want[i] = d[3].in[o] * t;
    }
}

static const layer_case both_forward = {"linear and layerscale",
    {{"g", LAYER_IN, layer_linear_x}, {"w", LAYER_IN, layer_all}, {"b", LAYER_IN, layer_column},
        {"ls", LAYER_IN, layer_column}, {"y", LAYER_OUT, layer_linear_y}},
    NULL, ref_both_forward, NULL};

static clprune_status call_both(const layer_call *c)
{
    const clprune_mat *m = c->m;
    TEST_OK(clprune__column_sum(c->context, 0, m[4], m[6], NULL));
    TEST_OK(clprune_gemm(c->context, true, false, 1, 0, m[4], m[0], m[5], NULL));
    return clprune_layerscale_backward_product(
        c->context, c->beta, m[1], m[2], m[3], m[7], m[5], m[6], c->event);
}

static const layer_case both_backward = {"linear and layerscale",
    {{"g", LAYER_IN, layer_linear_x}, {"w", LAYER_IN, layer_all}, {"b", LAYER_IN, layer_column},
        {"ls", LAYER_IN, layer_column}, {"dy", LAYER_IN, layer_linear_y},
        {"dw", LAYER_OUT, layer_all}, {"db", LAYER_OUT, layer_column},
        {"dls", LAYER_OUT, layer_column}},
    call_both, NULL, NULL};

static void slopes(NO_ROW)
{
    static const layer_shape alone = {9, 21, 0}, samples = {21, 21, 0}, linear = {5, 7, 0};
    const layer_steps steps = {1e-4, 1e-8, 1e-2, 1e-3, 1e-6};
    layer_slopes_of(&forward, &backward, &alone, steps);
    layer_slopes_of(&biased, &backward, &samples, steps);
    layer_slopes_of(&both_forward, &both_backward, &linear, steps);
}

int main(void)
{
    test_list list = {0};
    layer_add(&list, &forward);
    layer_add(&list, &backward);
    layer_add(&list, &weights);
    layer_add(&list, &product);
    layer_add_shapes(&list, bias_gradient, "bias gradient");
    test_add(&list, slopes, NULL, "slopes");
    return test_run_on_devices("layerscale", &list);
}
