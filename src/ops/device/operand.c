#include "ops/device/operand.h"

#include <math.h>

double clprune__round_operand(clprune_precision precision, double x)
{
    int exponent;
    const double fraction = frexp(x, &exponent); /* 0.5 <= |fraction| < 1 */
    if (precision == CLPRUNE_PRECISION_TF32)
        return ldexp(round(ldexp(fraction, 11)), exponent - 11);
    return ldexp(rint(ldexp(fraction, 8)), exponent - 8);
}
