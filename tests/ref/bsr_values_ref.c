#include "ref/bsr_values_ref.h"

#include <float.h>
#include <math.h>

static double largest(float_format f)
{
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    return ldexp(2 - ldexp(1, -f.fraction_bits), bias);
}

uint16_t float_format_encode(float_format f, float x)
{
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    const int special = (1 << f.exponent_bits) - 1; /* the exponent of Inf and NaN */
    const unsigned sign = signbit(x) ? 1u << (f.exponent_bits + f.fraction_bits) : 0;
    if (isnan(x))
        return (
            uint16_t)(sign | (unsigned)special << f.fraction_bits | 1u << (f.fraction_bits - 1));
    if (isinf(x))
        return (uint16_t)(sign | (unsigned)special << f.fraction_bits);
    /* Units of the last place; below the least normal exponent they are those of that exponent. */
    const double size = fabs((double)x);
    int exponent = size == 0 ? 1 - bias : ilogb(size);
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    const double rounded =
        ldexp(nearbyint(ldexp(size, f.fraction_bits - exponent)), exponent - f.fraction_bits);
    const double kept = fmin(rounded, largest(f));
    if (kept < ldexp(1, 1 - bias))
        return (uint16_t)(sign | (unsigned)ldexp(kept, f.fraction_bits - (1 - bias)));
    const int e = ilogb(kept);
    const double fraction = ldexp(kept, -e) - 1;
    return (uint16_t)(sign | (unsigned)(e + bias) << f.fraction_bits |
                      (unsigned)ldexp(fraction, f.fraction_bits));
}

double float_format_decode(float_format f, uint16_t code)
{
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    const int special = (1 << f.exponent_bits) - 1;
    const double sign = code >> (f.exponent_bits + f.fraction_bits) != 0 ? -1 : 1;
    const int exponent = code >> f.fraction_bits & special;
    const int fraction = code & ((1 << f.fraction_bits) - 1);
    if (exponent == special)
        return fraction != 0 ? (double)NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - f.fraction_bits);
    return sign * ldexp(1 + ldexp(fraction, -f.fraction_bits), exponent - bias);
}

uint16_t int_ref_scale(int most, size_t count, const float *block)
{
    double size = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(block[i]))
            return float_format_encode(ref_bf16, NAN);
        size = fmax(size, fabs((double)block[i]));
    }
    const float part = 1.0f / (float)most;
    const double scale = (double)(float)(size * (double)part);
    if (isinf(scale))
        return float_format_encode(ref_bf16, INFINITY);
    if (scale < (double)FLT_MIN)
        return 0;
    /* Up to a whole number of units of the last of 8 bits. */
    const int unit = ilogb(scale) - 7;
    return float_format_encode(ref_bf16, (float)ldexp(ceil(ldexp(scale, -unit)), unit));
}

int8_t int_ref_encode(float scale, float x)
{
    if (!(scale > 0.0f && isfinite(scale)))
        return 0;
    return (int8_t)nearbyint((double)(float)((double)x / (double)scale));
}

int int4_ref_code(const unsigned char *block, size_t e)
{
    const int code = e % 2 == 0 ? block[e / 2] % 16 : block[e / 2] / 16;
    return code < 8 ? code : code - 16;
}
