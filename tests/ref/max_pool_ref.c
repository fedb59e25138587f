#include "ref/max_pool_ref.h"

#include <math.h>
#include <stdbool.h>

/* The element of an image under a tap of a window; false where it lies outside. */
static bool element(const clprune_max_pool_desc *desc, clprune_extent image, size_t i, size_t j,
    unsigned tap, size_t *row)
{
    const long y =
        (long)(i * desc->stride.height + tap / desc->kernel.width) - (long)desc->padding.height;
    const long x =
        (long)(j * desc->stride.width + tap % desc->kernel.width) - (long)desc->padding.width;
    *row = (size_t)(y * (long)image.width + x);
    return y >= 0 && y < (long)image.height && x >= 0 && x < (long)image.width;
}

void max_pool_ref_forward(const clprune_max_pool_desc *desc, size_t batch, clprune_extent image,
    clprune_extent output, size_t cols, const double *x, double *y, unsigned *taps)
{
    const size_t pixels = image.height * image.width;
    const unsigned all = (unsigned)(desc->kernel.height * desc->kernel.width);
    for (size_t n = 0; n < batch; n++)
        for (size_t i = 0; i < output.height; i++)
            for (size_t j = 0; j < output.width; j++)
                for (size_t c = 0; c < cols; c++, y++, taps++) {
                    bool any = false;
                    for (unsigned tap = 0; tap < all; tap++) {
                        size_t row;
                        if (!element(desc, image, i, j, tap, &row))
                            continue;
                        const double value = x[(n * pixels + row) * cols + c];
                        if (!any || value > *y || isnan(value)) {
                            *y = value;
                            *taps = tap;
                        }
                        any = true;
                    }
                }
}

void max_pool_ref_backward(const clprune_max_pool_desc *desc, size_t batch, clprune_extent image,
    clprune_extent output, size_t cols, const double *dy, const unsigned *taps, double *dx,
    double *size)
{
    const size_t pixels = image.height * image.width;
    for (size_t k = 0; k < batch * pixels * cols; k++) {
        dx[k] = 0;
        size[k] = 0;
    }
    for (size_t n = 0; n < batch; n++)
        for (size_t i = 0; i < output.height; i++)
            for (size_t j = 0; j < output.width; j++)
                for (size_t c = 0; c < cols; c++, dy++, taps++) {
                    size_t row;
                    if (!element(desc, image, i, j, *taps, &row))
                        continue;
                    dx[(n * pixels + row) * cols + c] += *dy;
                    size[(n * pixels + row) * cols + c] += fabs(*dy);
                }
}
