#include "ref/cross_entropy_ref.h"

#include "clprune/cross_entropy.h"
#include "support/test_compare.h"

#define U 0x1p-24

static double target(size_t classes, double smoothing, size_t k, int32_t label)
{
    return smoothing / (double)classes + (label >= 0 && k == (size_t)label ? 1 - smoothing : 0);
}

/* One row: log_p and its error bound. Two differences are rounded: logits - max, and that minus log
 * sum. The sum of exponentials has the errors of its arguments and of exp and log, a few units
 * each. */
static void log_softmax(size_t classes, const double *x, double *log_p, double *bound)
{
    double max = -INFINITY, mass = 0, mass_error = 0;
    for (size_t k = 0; k < classes; k++)
        max = x[k] > max ? x[k] : max;
    for (size_t k = 0; k < classes; k++) {
        const double part = exp(x[k] - max);
        mass += part;
        mass_error += part > 0 ? part * (3 + fabs(x[k] - max)) * U : 0;
    }
    const double log_mass = log(mass);
    const double log_error =
        mass_error / mass + 2 * sqrt((double)classes) * U + 4 * U * (1 + fabs(log_mass));
    for (size_t k = 0; k < classes; k++) {
        log_p[k] = x[k] - max - log_mass;
        bound[k] = isinf(log_p[k]) ? 0 : 2 * U * (fabs(x[k] - max) + fabs(log_p[k])) + log_error;
    }
}

static bool is_hit(size_t classes, const double *x, size_t label)
{
    for (size_t k = 0; k < classes; k++)
        if (k != label && !(k < label ? x[k] < x[label] : x[k] <= x[label]))
            return false;
    return true;
}

void cross_entropy_ref_forward(size_t batch, size_t classes, double smoothing, const double *logits,
    const int32_t *labels, double *log_p, double *log_p_bound, double *loss, double *loss_bound,
    double *hit)
{
    const size_t mark = test_mark();
    double *row = test_doubles(classes + 1), *bound = test_doubles(classes + 1);
    for (size_t n = 0; n < batch; n++) {
        const double *x = logits + n * classes;
        const bool legal = labels[n] >= 0 && (size_t)labels[n] < classes;
        log_softmax(classes, x, row, bound);
        double sum = 0, size = 0, error = 0;
        for (size_t k = 0; k < classes; k++) {
            const double q = target(classes, smoothing, k, labels[n]);
            log_p[n * classes + k] = row[k];
            log_p_bound[n * classes + k] = bound[k];
            if (q == 0)
                continue;
            sum -= q * row[k];
            size += q * fabs(row[k]);
            error += q * bound[k];
        }
        loss[n] = legal ? sum : NAN;
        if (labels[n] == CLPRUNE_IGNORED)
            loss[n] = error = sum = size = 0;
        loss_bound[n] = isfinite(error) ? error + test_bound(classes, 2 * size, sum) : 0;
        hit[n] = legal && is_hit(classes, x, (size_t)labels[n]) ? 1 : 0;
    }
    test_release(mark);
}

void cross_entropy_ref_backward(size_t batch, size_t classes, double smoothing, double scale,
    const double *log_p, const int32_t *labels, double *dlogits, double *bound)
{
    for (size_t n = 0; n < batch; n++)
        for (size_t k = 0; k < classes; k++) {
            const size_t i = n * classes + k;
            const double p = exp(log_p[i]), q = target(classes, smoothing, k, labels[n]);
            const bool legal = labels[n] >= 0 && (size_t)labels[n] < classes;
            dlogits[i] = legal ? scale * (p - q) : 0;
            /* exp: 2 units; q and the difference: 3 */
            bound[i] = legal ? fabs(scale) * U * (2 * p + 3 * (p + q)) : 0;
        }
}
