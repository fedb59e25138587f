#include "ref/mean_squared_error_ref.h"

#include "support/test_compare.h"

/* Sums are added up in parts, so their error does not grow beyond that of some 64 terms. Besides,
 * a difference (twice), its square, the factor and the product are rounded. */
void mean_squared_error_ref_forward(size_t batch, size_t each, const double *y,
    const double *target, double *loss, double *loss_bound)
{
    for (size_t n = 0; n < batch; n++) {
        double sum = 0;
        for (size_t i = n * each; i < (n + 1) * each; i++)
            sum += (y[i] - target[i]) * (y[i] - target[i]);
        loss[n] = each > 0 ? sum / (double)each : NAN;
        loss_bound[n] = each > 0 ? test_bound(each < 64 ? each : 64, loss[n], 5 * loss[n]) : 0;
    }
}

/* The difference, the factor and the product are rounded. */
void mean_squared_error_ref_backward(size_t batch, size_t each, double scale, const double *y,
    const double *target, double *dy, double *dy_bound)
{
    for (size_t i = 0; i < batch * each; i++) {
        dy[i] = scale * 2 / (double)each * (y[i] - target[i]);
        dy_bound[i] = test_bound(0, 0, 3 * dy[i]);
    }
}
