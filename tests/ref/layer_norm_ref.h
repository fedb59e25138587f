/* Reference of layer normalisation over the columns of rows x cols, by definition in double. Bounds
 * of fp32 results go to `bound` unless it is NULL. */
#ifndef CLPRUNE_LAYER_NORM_REF_H
#define CLPRUNE_LAYER_NORM_REF_H

#include <stddef.h>

/* stats: rows x 2, mean and 1 / sqrt(biased variance + eps). No columns give mean 0, variance 0. */
void layer_norm_ref_stats(
    size_t rows, size_t cols, double eps, const double *x, double *stats, double *bound);

/* y = gamma * xhat + beta, xhat = (x - mean) * inv; gamma and beta may be NULL. stats_bound: of
 * stats, NULL if they are exact. */
void layer_norm_ref_y(size_t rows, size_t cols, const double *x, const double *stats,
    const double *stats_bound, const double *gamma, const double *beta, double *y, double *bound);

/* xhat * dy, and dx = inv * (g - mean of g - xhat * mean of g * xhat), g = gamma * dy; gamma may be
 * NULL. */
void layer_norm_ref_products(size_t rows, size_t cols, const double *x, const double *stats,
    const double *dy, double *products);
void layer_norm_ref_dx(size_t rows, size_t cols, const double *x, const double *stats,
    const double *gamma, const double *dy, double *dx, double *bound);

#endif
