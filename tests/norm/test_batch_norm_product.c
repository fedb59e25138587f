/* Gradients of a convolution and its batch norm without the convolution's output: against the
 * definition, from patches, in double; accumulation, repeatability. */
#include "support/test_layer.h"

enum { PIXELS = 50 };

typedef struct shape {
    size_t channels, taps, gap;
} shape;

static const shape shapes[] = {
    {1, 1, 0}, {3, 5, 1}, {16, 27, 0}, {64, 147, 2}, {130, 16, 0}, {2, 600, 3}, {0, 8, 0}};

/* What the forward pass leaves, and the gradients by definition with bounds of fp32. */
typedef struct problem {
    double *patch_sum, *x_product, *mean, *inv, *dz_sum, *dz_product;
    double *dw, *dw_bound, *dgamma, *dgamma_bound;
    float *w, *gamma;
} problem;

static problem problem_new(const shape *s)
{
    const size_t channels = s->channels, taps = s->taps, count = channels * taps;
    problem p = {test_doubles(taps), test_doubles(count), test_doubles(channels),
        test_doubles(channels), test_doubles(channels), test_doubles(count), test_doubles(count),
        test_doubles(count), test_doubles(channels), test_doubles(channels),
        test_new_normal(91, count), test_new_normal(92, channels)};
    float *patches = test_new_normal(93, PIXELS * taps);
    float *dz = test_new_normal(94, PIXELS * channels);
    double x[PIXELS], xhat[PIXELS];
    for (size_t i = 0; i < PIXELS * taps; i++)
        p.patch_sum[i % taps] += (double)(patches[i] += 0.5f); /* means that matter */
    for (size_t o = 0; o < channels; o++) {
        double m2 = 0, sizes = 0;
        for (size_t i = 0; i < PIXELS; i++) {
            x[i] = 0;
            for (size_t t = 0; t < taps; t++)
                x[i] += (double)p.w[o * taps + t] * (double)patches[i * taps + t];
            p.mean[o] += x[i] / PIXELS;
        }
        for (size_t i = 0; i < PIXELS; i++)
            m2 += (x[i] - p.mean[o]) * (x[i] - p.mean[o]);
        p.inv[o] = 1 / sqrt(m2 / PIXELS + 1e-5);
        for (size_t i = 0; i < PIXELS; i++) {
            const double d = (double)dz[i * channels + o];
            xhat[i] = (x[i] - p.mean[o]) * p.inv[o];
            p.dz_sum[o] += d;
            p.dgamma[o] += d * xhat[i];
        }
        const double rise = (double)p.gamma[o] * p.inv[o];
        for (size_t t = 0; t < taps; t++) {
            const size_t k = o * taps + t;
            double size = 0;
            for (size_t i = 0; i < PIXELS; i++) {
                const double patch = (double)patches[i * taps + t];
                const double d = (double)dz[i * channels + o];
                p.x_product[k] += x[i] * patch;
                p.dz_product[k] += d * patch;
                p.dw[k] +=
                    rise * (d - p.dz_sum[o] / PIXELS - xhat[i] * p.dgamma[o] / PIXELS) * patch;
                size +=
                    (fabs(d) + fabs(p.dz_sum[o]) / PIXELS +
                        (fabs(x[i]) + fabs(p.mean[o])) * p.inv[o] * fabs(p.dgamma[o]) / PIXELS) *
                    fabs(patch);
            }
            sizes += fabs((double)p.w[k] * p.dz_product[k]);
            p.dw_bound[k] = fabs(rise) * size;
        }
        p.dgamma_bound[o] =
            test_bound(taps + 8, p.inv[o] * (sizes + fabs(p.mean[o] * p.dz_sum[o])), p.dgamma[o]);
        for (size_t t = 0; t < taps; t++) { /* dw depends on the rounded dgamma */
            const size_t k = o * taps + t;
            const double deviation = p.x_product[k] - p.mean[o] * p.patch_sum[t];
            p.dw_bound[k] = test_bound(16, p.dw_bound[k], p.dw[k]) +
                            fabs(rise * p.inv[o] * deviation) / PIXELS * p.dgamma_bound[o];
        }
    }
    return p;
}

/* A matrix on the device, rounded to fp32. */
static test_mat rounded(size_t rows, size_t cols, size_t gap, const double *values)
{
    float *narrow = layer_narrow(rows * cols, values);
    const test_mat made = test_mat_make(rows, cols, gap, narrow);
    return made;
}

static void values(void **state)
{
    const shape *s = *state;
    const size_t channels = s->channels, taps = s->taps;
    problem p = problem_new(s);
    float *old = test_new_normal(95, channels);
    test_mat w = test_mat_make(channels, taps, s->gap, p.w);
    test_mat gamma = test_mat_make(1, channels, 0, p.gamma);
    test_mat mean = rounded(1, channels, 0, p.mean), inv = rounded(1, channels, 1, p.inv);
    test_mat patch_sum = rounded(1, taps, 0, p.patch_sum);
    test_mat dz_sum = rounded(1, channels, 2, p.dz_sum);
    test_mat x_product = rounded(channels, taps, s->gap + 1, p.x_product), dw[2], dgamma[2];
    const clprune_batch_norm bn = {.gamma = gamma.mat, .mean = mean.mat, .inv = inv.mat};
    for (int i = 0; i < 2; i++) {
        dw[i] = rounded(channels, taps, s->gap, p.dz_product);
        dgamma[i] = test_mat_make(1, channels, 0, i == 0 ? NULL : old);
        TEST_EVENT(
            clprune_batch_norm_backward_product(test_context(), PIXELS, i == 0 ? 0.0f : -0.5f, &bn,
                &(clprune_batch_norm_products){.w = w.mat,
                    .patch_sum = patch_sum.mat,
                    .x_product = x_product.mat,
                    .dz_sum = dz_sum.mat},
                dw[i].mat, dgamma[i].mat, &event));
    }
    layer_check("dw", &dw[0], p.dw, p.dw_bound, "by definition");
    layer_check("dgamma", &dgamma[0], p.dgamma, p.dgamma_bound, "by definition");
    layer_same("dw", &dw[0], &dw[1]);
    for (size_t o = 0; o < channels; o++) {
        p.dgamma[o] -= 0.5 * (double)old[o];
        p.dgamma_bound[o] += test_bound(2, fabs(p.dgamma[o]) + fabs((double)old[o]), p.dgamma[o]);
    }
    layer_check("dgamma", &dgamma[1], p.dgamma, p.dgamma_bound, "accumulated");
    TEST_UNCHANGED(&w, &gamma, &mean, &inv, &patch_sum, &dz_sum, &x_product);
}

static void no_parameters(NO_ROW)
{
    test_mat m = test_mat_make(4, 4, 0, NULL), dw = test_mat_make(4, 4, 0, NULL);
    test_mat dgamma = test_mat_make(1, 4, 0, NULL);
    const clprune_mat row = clprune_mat_rows(m.mat, 0, 1);
    TEST_FAILS(clprune_batch_norm_backward_product(test_context(), 8, 0, NULL,
                   &(clprune_batch_norm_products){
                       .w = m.mat, .patch_sum = row, .x_product = m.mat, .dz_sum = row},
                   dw.mat, dgamma.mat, NULL),
        CLPRUNE_INVALID_ARGUMENT, "bn is NULL");
    TEST_UNCHANGED(&dw, &dgamma);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        test_add(&list, values, &shapes[i], "%zu x %zu + %zu", shapes[i].channels, shapes[i].taps,
            shapes[i].gap);
    test_add(&list, no_parameters, NULL, "no parameters");
    return test_run_on_devices("batch_norm_product", &list);
}
