#include "ref/gelu_ref.h"

#include <math.h>

#include "ref/gelu_code_ref.h"

#define SQRT_HALF 0.70710678118654752440
#define SMALLEST  0x1p-149

/* Phi(h) * h without Inf * 0. */
static double gelu(double h)
{
    return isinf(h) ? (h > 0 ? h : -0.0) : h * 0.5 * erfc(-h * SQRT_HALF);
}

void gelu_ref_forward(size_t count, const double *h, double *g, double *bound)
{
    for (size_t i = 0; i < count; i++) {
        g[i] = gelu(h[i]);
        /* 4 * 2^-24 of h, 8 * 2^-24 of the result; Phi below 1e-37 has few bits left. */
        bound[i] = fmin(4 * 0x1p-24 * fabs(h[i]), 8 * 0x1p-24 * fabs(g[i])) + 16 * 2 * SMALLEST;
    }
}

void gelu_ref_backward(size_t count, const double *h, const double *dg, double *dh, double *bound)
{
    for (size_t i = 0; i < count; i++) {
        dh[i] = dg[i] * gelu_code_ref_slope(h[i]);
        bound[i] = 4 * 0x1p-24 * fabs(dg[i]) + 0x1p-24 * fabs(dh[i]) + SMALLEST;
    }
}
