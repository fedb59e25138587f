/* float_bits.h: numbers of files, little endian, and fp16 as fp32. */
#ifndef TRAINER_FLOAT_BITS_H
#define TRAINER_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint64_t little_endian(const unsigned char *bytes, unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < count; ++i)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* fp16 as fp32, exactly. */
static inline float float_of_half(uint32_t half)
{
    const uint32_t sign = (half & 0x8000u) << 16, mantissa = half & 0x3ffu;
    const uint32_t exponent = (half >> 10) & 0x1fu;
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24 */
        const float value = (float)mantissa * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    if (exponent == 31)
        return float_of_bits(sign | 0x7f800000u | (mantissa << 13));
    return float_of_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

#endif
