/* Reference of LayerScale. `bound` receives the error bound of fp32; may be NULL. */
#ifndef CLPRUNE_LAYERSCALE_REF_H
#define CLPRUNE_LAYERSCALE_REF_H

#include <stddef.h>

void layerscale_ref_forward(size_t rows, size_t cols, const double *x, const double *t,
    const double *ls, double *y, double *bound);
void layerscale_ref_dt(
    size_t rows, size_t cols, const double *ls, const double *dy, double *dt, double *bound);
void layerscale_ref_dls(
    size_t rows, size_t cols, const double *t, const double *dy, double *dls, double *bound);

/* Of y = ls * (g w^T + b), with product = dy^T g (rows x cols, as w) and sums = column sums of dy.
 */
void layerscale_ref_product(size_t rows, size_t cols, const double *w, const double *b,
    const double *product, const double *sums, double *dls, double *bound);

#endif
