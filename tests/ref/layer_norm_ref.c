#include "ref/layer_norm_ref.h"

#include <math.h>

#include "support/test_compare.h"

#define UNIT 0x1p-24

void layer_norm_ref_stats(
    size_t rows, size_t cols, double eps, const double *x, double *stats, double *bound)
{
    const double n = cols > 0 ? (double)cols : 1;
    for (size_t r = 0; r < rows; r++) {
        const double *row = x + r * cols;
        double sum = 0, size = 0, squares = 0, spread = 0;
        for (size_t c = 0; c < cols; c++) {
            sum += row[c];
            size += fabs(row[c]);
        }
        const double mean = sum / n;
        for (size_t c = 0; c < cols; c++) {
            squares += (row[c] - mean) * (row[c] - mean);
            spread += fabs(row[c] - mean);
        }
        const double variance = squares / n, inv = 1 / sqrt(variance + eps);
        stats[2 * r] = mean;
        stats[2 * r + 1] = inv;
        if (bound == NULL)
            continue;
        /* The kernel's first mean is off by this; the second pass takes deviations from it. */
        const double off = test_bound(cols, size / n, mean);
        const double variance_bound =
            2 * test_bound(cols + 3, variance + off * off, variance + off * off);
        bound[2 * r] = UNIT * fabs(mean) + test_bound(cols + 2, spread / n + off, 0);
        /* Besides the variance's: sqrt 3 ulp, division 2.5 ulp, an addition. */
        bound[2 * r + 1] = 0.5 * inv * inv * inv * variance_bound + 6 * 2 * UNIT * inv;
    }
}

void layer_norm_ref_y(size_t rows, size_t cols, const double *x, const double *stats,
    const double *stats_bound, const double *gamma, const double *beta, double *y, double *bound)
{
    for (size_t i = 0; i < rows * cols; i++) {
        const size_t r = i / cols, c = i % cols;
        const double inv = stats[2 * r + 1], deviation = x[i] - stats[2 * r];
        const double factor = gamma != NULL ? gamma[c] : 1, term = beta != NULL ? beta[c] : 0;
        const double scaled = factor * deviation * inv;
        y[i] = scaled + term;
        if (bound == NULL)
            continue;
        bound[i] = test_bound(3, fabs(scaled) + fabs(term), y[i]);
        if (stats_bound != NULL)
            bound[i] +=
                fabs(factor) * (inv * stats_bound[2 * r] +
                                   (fabs(deviation) + stats_bound[2 * r]) * stats_bound[2 * r + 1]);
    }
}

void layer_norm_ref_products(size_t rows, size_t cols, const double *x, const double *stats,
    const double *dy, double *products)
{
    for (size_t i = 0; i < rows * cols; i++) {
        const size_t r = i / cols;
        products[i] = dy[i] * (x[i] - stats[2 * r]) * stats[2 * r + 1];
    }
}

void layer_norm_ref_dx(size_t rows, size_t cols, const double *x, const double *stats,
    const double *gamma, const double *dy, double *dx, double *bound)
{
    const double n = cols > 0 ? (double)cols : 1;
    for (size_t r = 0; r < rows; r++) {
        const double mean = stats[2 * r], inv = stats[2 * r + 1];
        const double *in = x + r * cols, *from = dy + r * cols;
        double plain = 0, along = 0, plain_size = 0, along_size = 0;
        for (size_t c = 0; c < cols; c++) {
            const double g = (gamma != NULL ? gamma[c] : 1) * from[c];
            const double product = g * (in[c] - mean) * inv;
            plain += g / n;
            along += product / n;
            plain_size += fabs(g) / n;
            along_size += fabs(product) / n;
        }
        for (size_t c = 0; c < cols; c++) {
            const double g = (gamma != NULL ? gamma[c] : 1) * from[c];
            const double xhat = (in[c] - mean) * inv;
            const size_t i = r * cols + c;
            dx[i] = inv * (g - plain - xhat * along);
            if (bound != NULL)
                bound[i] =
                    test_bound(8, inv * (fabs(g) + fabs(plain) + fabs(xhat * along)), dx[i]) +
                    inv * (test_bound(cols + 1, plain_size, plain) +
                              fabs(xhat) * test_bound(cols + 4, along_size, along));
        }
    }
}
