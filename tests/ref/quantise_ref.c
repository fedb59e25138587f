#include "ref/quantise_ref.h"

#include <math.h>
#include <string.h>

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

/* x rounded to `bits` significant bits, down or up. */
static double to_bits(double x, int bits, bool up)
{
    if (x == 0)
        return 0;
    int exponent;
    const double scaled = ldexp(frexp(x, &exponent), bits);
    return ldexp(up ? ceil(scaled) : floor(scaled), exponent - bits);
}

/* a - b, rounded down to 9 significant bits. */
static double span_of(double a, double b)
{
    const double d = a - b, part = d - a, rest = (a - (d - part)) - (b + part),
                 span = to_bits(d, 9, false);
    return rest < 0 && span == d ? to_bits(nextafter(d, 0), 9, false) : span;
}

static float as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One step of a span: 1 / (2^bits - 1), rounded down. */
static float step_of(unsigned bits)
{
    const double exact = 1.0 / ((1 << bits) - 1);
    return (double)(float)exact > exact ? nextafterf((float)exact, 0) : (float)exact;
}

float quantise_ref_scale(unsigned bits, uint32_t word)
{
    return as_float(word << 16 >> 1) * step_of(bits);
}

float quantise_ref_zero(uint32_t word)
{
    return as_float(word & 0xffff0000u);
}

quantise_ref_group quantise_ref_of(unsigned bits, bool rotated, size_t count, const float *x)
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
    const unsigned last = (1u << bits) - 1;
    const double above = to_bits(low, 8, true);
    g.zero = !rotated && (above - low) * last <= high - low ? above : to_bits(low, 8, false);
    const double span =
        rotated ? to_bits((double)((float)high - (float)g.zero), 9, true) : span_of(high, g.zero);
    g.scale = (double)((float)span * step_of(bits));
    if (g.scale < 0x1p-120)
        g.scale = 0;
    g.low = low, g.high = high;
    while (!rotated && g.first < last && g.scale > 0 && fma(g.first, g.scale, g.zero) < low)
        g.first++;
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
