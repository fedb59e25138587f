#include "trainer/reduce/reduce_code.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LEVELS = 255, HALF = REDUCE_GROUP / 2 };

size_t reduce_code_groups(size_t count)
{
    return count / REDUCE_GROUP + (count % REDUCE_GROUP != 0);
}

size_t reduce_code_bytes(size_t count)
{
    return reduce_code_groups(count) * offsetof(reduce_code, codes) + count;
}

uint64_t reduce_key(uint64_t a, uint64_t b) /* the finaliser of splitmix64 */
{
    uint64_t h = (a ^ b * 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

/* Bits of a float as an integer of the same order, or back: NaNs lie beyond the Infs. */
static int32_t ordered(int32_t bits)
{
    return bits ^ (bits >> 31 & INT32_MAX);
}

static float float_of(int32_t order)
{
    const int32_t bits = ordered(order);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Loops of a fixed length without branches, which compilers vectorise. */

static void limits(const float *restrict x, float *least, float *most)
{
    int32_t bits[REDUCE_GROUP], low = INT32_MAX, high = INT32_MIN;
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < REDUCE_GROUP; ++i) {
        const int32_t v = ordered(bits[i]);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    *least = float_of(low);
    *most = float_of(high);
}

/* x in 2^-16 scales from zero: at most 255 scales, which a product's rounding may exceed. */
static int32_t steps_of(float x, float zero, float inverse)
{
    const int32_t steps = (int32_t)((x - zero) * inverse + 0.5f);
    return steps < LEVELS << 16 ? steps : LEVELS << 16;
}

static uint8_t code_of(int32_t steps, uint32_t u)
{
    return (uint8_t)(((uint32_t)steps + u) >> 16);
}

static void round_all(
    const float *restrict x, float zero, float inverse, uint32_t key, uint8_t *restrict codes)
{
    for (uint32_t i = 0; i < HALF; ++i) {
        uint32_t h = key + i * 0x9e3779b9u; /* the finaliser of murmur3, for two floats */
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        h ^= h >> 16;
        codes[i] = code_of(steps_of(x[i], zero, inverse), h & 0xffff);
        codes[i + HALF] = code_of(steps_of(x[i + HALF], zero, inverse), h >> 16);
    }
}

static void encode_group(const float *x, uint32_t key, reduce_code *to)
{
    float least, most;
    limits(x, &least, &most);
    const float range = most - least, scale = range / (float)LEVELS;
    const bool finite = range <= FLT_MAX, wide = finite && scale >= 0x1p-110f;
    to->zero = finite ? least : NAN;
    to->scale = wide ? scale : 0;
    if (wide)
        round_all(x, least, 0x1p16f / scale, key, to->codes);
    else
        memset(to->codes, 0, sizeof to->codes);
}

void reduce_encode(const float *x, size_t count, uint64_t key, size_t first, reduce_code *to)
{
    for (size_t g = 0; g < reduce_code_groups(count); ++g, x += REDUCE_GROUP) {
        const size_t left = count - g * REDUCE_GROUP;
        const uint32_t draws = (uint32_t)(reduce_key(key, first + g) >> 32);
        float whole[REDUCE_GROUP];
        if (left < REDUCE_GROUP) {
            for (size_t i = 0; i < REDUCE_GROUP; ++i)
                whole[i] = x[i < left ? i : 0];
            encode_group(whole, draws, to + g);
        } else {
            encode_group(x, draws, to + g);
        }
    }
}

static void decode_group(
    const uint8_t *restrict codes, float zero, float scale, size_t count, float *restrict x)
{
    for (size_t i = 0; i < count; ++i)
        x[i] = zero + scale * (float)codes[i];
}

void reduce_decode(const reduce_code *from, size_t count, float *x)
{
    for (; count >= REDUCE_GROUP; count -= REDUCE_GROUP, x += REDUCE_GROUP, ++from)
        decode_group(from->codes, from->zero, from->scale, REDUCE_GROUP, x);
    if (count > 0)
        decode_group(from->codes, from->zero, from->scale, count, x);
}
