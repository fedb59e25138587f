/* Reference of max pooling of channels-last images, by definition. */
#ifndef CLPRUNE_MAX_POOL_REF_H
#define CLPRUNE_MAX_POOL_REF_H

#include "clprune/max_pool.h"

/* y and the tap a * kernel.width + b of each maximum: the first of the greatest, or the last NaN.
 * desc has a stride; output: the size of y's images. */
void max_pool_ref_forward(const clprune_max_pool_desc *desc, size_t batch, clprune_extent image,
    clprune_extent output, size_t cols, const double *x, double *y, unsigned *taps);

/* dx: each dy goes to the pixel under its tap. size: the same with |dy|, for bounds. */
void max_pool_ref_backward(const clprune_max_pool_desc *desc, size_t batch, clprune_extent image,
    clprune_extent output, size_t cols, const double *dy, const unsigned *taps, double *dx,
    double *size);

#endif
