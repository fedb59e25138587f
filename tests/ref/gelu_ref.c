#include "ref/gelu_ref.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

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

/* h * s(z), and its slope; at the infinities without Inf * 0. */
double activation_ref(clprune_activation f, double h, double *slope)
{
    const double k = 1.59576912160573071176; /* 2 * sqrt(2 / pi) */
    if (f == CLPRUNE_ACTIVATION_GELU) {
        *slope = gelu_code_ref_slope(h);
        return gelu(h);
    }
    if (f == CLPRUNE_ACTIVATION_TANH) {
        *slope = 1 / (cosh(h) * cosh(h));
        return tanh(h);
    }
    if (f == CLPRUNE_ACTIVATION_HARD_SIGMOID || f == CLPRUNE_ACTIVATION_HARD_SWISH) {
        const bool swish = f == CLPRUNE_ACTIVATION_HARD_SWISH;
        *slope = fabs(h) < 3         ? swish ? h / 3 + 0.5 : 1.0 / 6
                 : isnan(h) && swish ? h
                                     : swish && h > 0;
        if (h <= -3)
            return swish ? -0.0 : 0;
        return h >= 3 ? (swish ? h : 1) : (h + 3) / 6 * (swish ? h : 1);
    }
    if (f == CLPRUNE_ACTIVATION_SIGMOID) {
        *slope = 1 / (1 + exp(-h)) / (1 + exp(h));
        return 1 / (1 + exp(-h));
    }
    if (f == CLPRUNE_ACTIVATION_RECIPROCAL) { /* infinite where it is no float */
        *slope = 1 / h / h > FLT_MAX ? -INFINITY : -1 / h / h;
        return fabs(1 / h) > FLT_MAX ? copysign(INFINITY, h) : 1 / h;
    }
    if (isinf(h)) {
        *slope = h > 0;
        return h > 0 ? h : -0.0;
    }
    const bool tanh_form = f == CLPRUNE_ACTIVATION_GELU_TANH;
    const double z = tanh_form ? k * (h + 0.044715 * h * h * h) : h;
    const double dz = tanh_form ? k * (1 + 3 * 0.044715 * h * h) : 1;
    const double s = 1 / (1 + exp(-z)), rest = 1 / (1 + exp(z));
    *slope = s + (s > 0 && rest > 0 ? h * s * rest * dz : 0);
    return h * s;
}

void activation_ref_forward(
    clprune_activation f, size_t count, const double *h, double *g, double *bound)
{
    double slope;
    if (f == CLPRUNE_ACTIVATION_GELU) {
        gelu_ref_forward(count, h, g, bound);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        g[i] = activation_ref(f, h[i], &slope);
        /* 4 * 2^-24 of h, and of tails that are 0 in fp32 */
        bound[i] = isinf(h[i]) ? 0 : 4 * 0x1p-24 * fabs(h[i]) + 16 * SMALLEST;
        if (f == CLPRUNE_ACTIVATION_RECIPROCAL)
            bound[i] = isfinite(g[i]) ? 4 * 0x1p-24 * fabs(g[i]) + SMALLEST : 0;
        else if (f >= CLPRUNE_ACTIVATION_HARD_SIGMOID && f != CLPRUNE_ACTIVATION_HARD_SWISH)
            bound[i] += 4 * 0x1p-24; /* of 1 */
    }
}

void activation_ref_backward(clprune_activation f, size_t count, const double *h, const double *dg,
    double *dh, double *bound)
{
    if (f == CLPRUNE_ACTIVATION_GELU) {
        gelu_ref_backward(count, h, dg, dh, bound);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        double slope;
        (void)activation_ref(f, h[i], &slope);
        dh[i] = dg[i] * slope;
        bound[i] = 8 * 0x1p-24 * fabs(dg[i]) + 0x1p-24 * fabs(dh[i]) + SMALLEST;
        if (f == CLPRUNE_ACTIVATION_RECIPROCAL)
            bound[i] = 8 * 0x1p-24 * fabs(dh[i]) + SMALLEST;
    }
}
