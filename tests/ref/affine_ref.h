/* Reference of the affine layer. `bound` receives the error bound of fp32; may be NULL. */
#ifndef CLPRUNE_AFFINE_REF_H
#define CLPRUNE_AFFINE_REF_H

#include <stddef.h>

void affine_ref_forward(size_t rows, size_t cols, const double *x, const double *alpha,
    const double *beta, double *y, double *bound);

/* before: the old values of dx if dx is added to, else NULL. */
void affine_ref_dx(size_t rows, size_t cols, const double *alpha, const double *dy,
    const double *before, double *dx, double *bound);
void affine_ref_dalpha(
    size_t rows, size_t cols, const double *x, const double *dy, double *dalpha, double *bound);
void affine_ref_dbeta(size_t rows, size_t cols, const double *dy, double *dbeta, double *bound);

/* Of h = (alpha * x + beta) w^T, with product = dh^T (x - centre) (rows x cols, as w) and sums =
 * column sums of dh: dw and the other gradients. */
void affine_ref_product_dalpha(size_t rows, size_t cols, const double *w, const double *centre,
    const double *product, const double *sums, double *dalpha, double *bound);
void affine_ref_product(size_t rows, size_t cols, const double *alpha, const double *beta,
    const double *centre, const double *product, const double *sums, double *dw, double *bound);
void affine_ref_product_dbeta(
    size_t rows, size_t cols, const double *w, const double *sums, double *dbeta, double *bound);

#endif
