#include "ref/dropout_ref.h"

#include <math.h>

#include "ref/quantise_ref.h"

bool dropout_ref_keeps(double rate, uint64_t seed, uint64_t row, uint64_t column)
{
    const uint32_t golden = UINT32_C(0x9e3779b9);
    const uint32_t low = (uint32_t)row, high = (uint32_t)(row >> 32);
    const uint32_t stream = quantise_ref_stream(seed, low);
    const uint32_t key = quantise_ref_mix(low ^ quantise_ref_mix(high + golden));
    const uint32_t bits = quantise_ref_mix(quantise_ref_mix((uint32_t)column ^ key) + stream);
    return (double)bits >= floor(rate * 4294967296.0);
}
