#include "ref/gelu_code_ref.h"

#include <math.h>

#include "support/test_owned.h"

double gelu_code_ref_slope(double h)
{
    const double at = fmax(fmin(h, 1e9), -1e9); /* no Inf * 0 */
    return isnan(h) ? h
                    : 0.5 * erfc(-at / sqrt(2.0)) +
                          at * exp(-0.5 * at * at) / sqrt(2.0 * 3.14159265358979323846);
}

unsigned gelu_code_ref_get(const unsigned char *row, unsigned bits, size_t c)
{
    unsigned code = 0;
    for (unsigned i = 0; i < bits; i++) {
        const size_t bit = c * bits + i;
        code |= (unsigned)(row[bit / 8] >> bit % 8 & 1) << i;
    }
    return code;
}

void gelu_code_ref_set(unsigned char *row, unsigned bits, size_t c, unsigned code)
{
    for (unsigned i = 0; i < bits; i++) {
        const size_t bit = c * bits + i;
        if (code >> i & 1)
            row[bit / 8] = (unsigned char)(row[bit / 8] | 1u << bit % 8);
    }
}

double gelu_code_ref_distance(double s, size_t count, const double *levels)
{
    double least = INFINITY;
    for (size_t i = 0; i < count; i++)
        least = fmin(least, fabs(s - levels[i]));
    return least;
}

static size_t nearest(double s, size_t count, const double *levels)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (fabs(s - levels[i]) < fabs(s - levels[best]))
            best = i;
    return best;
}

void gelu_code_ref_means(double sigma_low, double sigma_high, size_t count, const double *levels,
    double *means, double *square)
{
    enum { POINTS = 160000, SIGMAS = 40 };
    double *mass = test_alloc(count * sizeof *mass), all = 0;
    *square = 0;
    for (size_t i = 0; i < count; i++)
        means[i] = 0;
    for (int k = 0; k < POINTS; k++) { /* midpoints of intervals of h, and of log sigma */
        const double h = -12 + 24 * (k + 0.5) / POINTS, s = gelu_code_ref_slope(h);
        double density = 0;
        for (int j = 0; j < SIGMAS; j++) {
            const double sigma = sigma_low * pow(sigma_high / sigma_low, (j + 0.5) / SIGMAS);
            density += exp(-0.5 * h * h / (sigma * sigma)) / sigma;
        }
        const size_t i = nearest(s, count, levels);
        mass[i] += density;
        means[i] += density * s;
        *square += density * (s - levels[i]) * (s - levels[i]);
        all += density;
    }
    for (size_t i = 0; i < count; i++)
        means[i] /= mass[i];
    *square /= all;
}
