/* Reference of batch normalisation over rows x cols, by definition in double. Bounds of fp32
 * results go to `bound` unless it is NULL. */
#ifndef CLPRUNE_BATCH_NORM_REF_H
#define CLPRUNE_BATCH_NORM_REF_H

#include <stdbool.h>
#include <stddef.h>

/* Means, and sums of squared deviations from them. No rows give zeros. */
void batch_norm_ref_moments(size_t rows, size_t cols, const double *x, double *mean, double *m2);
void batch_norm_ref_moments_bound(
    size_t rows, size_t cols, const double *x, double *mean_bound, double *m2_bound);

/* Parameters and statistics of the channels. */
typedef struct batch_norm_ref {
    size_t cols;
    const double *gamma, *beta, *mean, *inv;
} batch_norm_ref;

/* z = gamma * (x - mean) * inv + beta + residual; residual may be NULL. */
void batch_norm_ref_z(const batch_norm_ref *bn, size_t rows, const double *x,
    const double *residual, double *z, double *bound);

/* dbeta = sum of dz, dgamma = sum of dz * xhat; bounds: of dbeta, then of dgamma. */
void batch_norm_ref_sums(const batch_norm_ref *bn, size_t rows, const double *x, const double *dz,
    double *dbeta, double *dgamma, double *bound);

/* dx = gamma * inv * (dz - dbeta / count - xhat * dgamma / count). */
void batch_norm_ref_dx(const batch_norm_ref *bn, size_t count, size_t rows, const double *x,
    const double *dz, const double *dbeta, const double *dgamma, double *dx, double *bound);

#endif
