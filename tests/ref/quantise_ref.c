#include "ref/quantise_ref.h"

#include <math.h>

#include "ref/gelu_code_ref.h"

unsigned quantise_ref_code(const uint32_t *row, unsigned bits, size_t c)
{
    return gelu_code_ref_get((const unsigned char *)row, bits, c);
}

double quantise_ref_bounded(float x)
{
    const double size = fabs((double)x);
    if (size < 0x1p-100)
        return 0;
    return isfinite(x) && size > 0x1p126 ? copysign(0x1p126, (double)x) : (double)x;
}

/* x rounded to 8 significant bits, down or up. */
static double to_bf16(double x, bool up)
{
    if (x == 0)
        return 0;
    int exponent;
    const double fraction = frexp(x, &exponent); /* 8 bits: multiples of 2^-8 */
    const double scaled = ldexp(fraction, 8);
    return ldexp(up ? ceil(scaled) : floor(scaled), exponent - 8);
}

quantise_ref_group quantise_ref_of(unsigned bits, size_t count, const float *x)
{
    quantise_ref_group g = {.finite = true};
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        g.finite = g.finite && isfinite(x[i]);
        low = fmin(low, quantise_ref_bounded(x[i]));
        high = fmax(high, quantise_ref_bounded(x[i]));
    }
    if (!g.finite)
        return g;
    g.zero = to_bf16(low, false);
    const double scale = (high - g.zero) / ((1 << bits) - 1) * (1 + 0x1p-21);
    g.scale = to_bf16(scale * (1 - 0x1p-22), true);
    g.other_scale = to_bf16(scale * (1 + 0x1p-22), true);
    if (g.scale < 0x1p-120)
        g.scale = 0;
    if (g.other_scale < 0x1p-120)
        g.other_scale = 0;
    return g;
}

uint32_t quantise_ref_mix(uint32_t h)
{
    h ^= h >> 16;
    h *= UINT32_C(0x85ebca6b);
    h ^= h >> 13;
    h *= UINT32_C(0xc2b2ae35);
    return h ^ h >> 16;
}

uint32_t quantise_ref_stream(uint64_t seed, uint32_t sample)
{
    const uint32_t golden = UINT32_C(0x9e3779b9);
    const uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
    return quantise_ref_mix(low ^ quantise_ref_mix(high + golden)) + golden * sample;
}

double quantise_ref_uniform(uint64_t seed, uint32_t sample, uint32_t position)
{
    const uint32_t stream = quantise_ref_stream(seed, sample);
    const uint32_t inner = quantise_ref_mix(position ^ quantise_ref_mix(stream));
    return (double)(quantise_ref_mix(inner + stream) / 256) / 16777216;
}
