#include "ref/moment_code_ref.h"

#include <math.h>

/* Bits are read from the highest: zeros, a one, and a fraction of the bits that are left. */
static double level_of(unsigned code, int bits)
{
    int zeros = 0;
    while (zeros < bits && (code >> (bits - 1 - zeros) & 1) == 0)
        zeros++;
    if (zeros == bits)
        return 0;
    const int left = bits - 1 - zeros;
    const double parts = ldexp(1, left), k = (double)(code & ((1u << left) - 1));
    return pow(10, -zeros) * (0.1 + 0.9 * (k + 1) / parts);
}

void moment_levels(bool has_sign, double levels[MOMENT_CODES])
{
    for (unsigned code = 0; code < MOMENT_CODES; code++)
        levels[code] = !has_sign    ? level_of(code, 8)
                       : code < 128 ? level_of(code, 7)
                                    : -level_of(code - 128, 7);
}

double moment_half_gap(const double levels[MOMENT_CODES], double x)
{
    double below = -INFINITY, above = INFINITY;
    for (size_t code = 0; code < MOMENT_CODES; code++) {
        if (levels[code] <= x)
            below = fmax(below, levels[code]);
        if (levels[code] >= x)
            above = fmin(above, levels[code]);
    }
    return (above - below) / 2;
}
