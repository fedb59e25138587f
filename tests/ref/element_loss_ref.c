#include "ref/element_loss_ref.h"

#include <math.h>

#include "support/test_compare.h"

/* *size: the largest number whose rounding the loss has. */
static double loss_of(const clprune_element_loss *desc, double y, double t, double *size)
{
    const double d = y - t, beta = (double)desc->beta;
    double f;
    if (desc->kind == CLPRUNE_LOSS_SQUARED)
        f = d * d;
    else if (desc->kind == CLPRUNE_LOSS_SMOOTH_L1)
        f = fabs(d) < beta ? d * d / (2 * beta) : fabs(d) - beta / 2;
    else
        f = fmax(y, 0) - y * t + log1p(exp(-fabs(y)));
    *size = fabs(f);
    if (desc->kind == CLPRUNE_LOSS_SMOOTH_L1)
        *size = fmax(fabs(d), beta);
    if (desc->kind == CLPRUNE_LOSS_BINARY)
        *size = fabs(y) + 1;
    return f;
}

/* Sums are added up in parts, so their error does not grow beyond that of some 64 terms. Besides,
 * a difference (twice), its square, the factor and the product are rounded; exp and log1p by 4
 * units in the last place. */
void element_loss_ref_forward(const clprune_element_loss *desc, size_t batch, size_t each,
    const double *y, const double *target, double *loss, double *loss_bound)
{
    for (size_t n = 0; n < batch; n++) {
        double sum = 0, sizes = 0, size;
        for (size_t i = n * each; i < (n + 1) * each; i++) {
            sum += loss_of(desc, y[i], target[i], &size);
            sizes += size;
        }
        loss[n] = each > 0 ? sum / (double)each : NAN;
        const double rounded = each > 0 ? sizes / (double)each : 0;
        const double times = desc->kind == CLPRUNE_LOSS_BINARY ? 12 : 5;
        loss_bound[n] = each > 0 ? test_bound(each < 64 ? each : 64, loss[n], times * rounded) : 0;
    }
}

static double slope_of(const clprune_element_loss *desc, double y, double t)
{
    const double d = y - t, beta = (double)desc->beta;
    if (desc->kind == CLPRUNE_LOSS_SQUARED)
        return 2 * d;
    if (desc->kind == CLPRUNE_LOSS_SMOOTH_L1)
        return fabs(d) < beta ? d / beta : d > 0 ? 1 : d < 0 ? -1 : d;
    return 1 / (1 + exp(-y)) - t;
}

/* The difference, the factor and the product are rounded; so is 1 / (1 + exp(-y)), by some units in
 * the last place, and y - t where they are large beside beta. */
void element_loss_ref_backward(const clprune_element_loss *desc, size_t batch, size_t each,
    double scale, const double *y, const double *target, double *dy, double *dy_bound)
{
    const double factor = scale / (double)each;
    for (size_t i = 0; i < batch * each; i++) {
        dy[i] = factor * slope_of(desc, y[i], target[i]);
        const double more = desc->kind == CLPRUNE_LOSS_BINARY ? 12 * factor : 0;
        dy_bound[i] = test_bound(0, 0, 4 * fabs(dy[i]) + more);
    }
}
