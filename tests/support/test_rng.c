#include "support/test_rng.h"

#include <math.h>

#include "support/test_owned.h"

uint64_t test_rng_next(test_rng *rng)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

size_t test_rng_below(test_rng *rng, size_t bound)
{
    return (size_t)(test_rng_next(rng) % bound);
}

float test_rng_uniform(test_rng *rng, float low, float high)
{
    const float unit = (float)(test_rng_next(rng) >> 40) * 0x1p-24f;
    return low + (high - low) * unit;
}

/* Mean 0, deviation 1. */
static float normal(test_rng *rng)
{
    /* Box and Muller. */
    const double u = ((double)(test_rng_next(rng) >> 11) + 0.5) * 0x1p-53;
    const double v = (double)(test_rng_next(rng) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

void test_fill_normal(uint64_t seed, size_t count, float *values)
{
    test_rng rng = {seed};
    for (size_t i = 0; i < count; i++)
        values[i] = normal(&rng);
}

float *test_new_uniform(uint64_t seed, float low, float high, size_t count)
{
    float *values = test_floats(count);
    test_rng rng = {seed};
    for (size_t i = 0; i < count; i++)
        values[i] = test_rng_uniform(&rng, low, high);
    return values;
}

float *test_new_normal(uint64_t seed, size_t count)
{
    float *values = test_floats(count);
    test_fill_normal(seed, count, values);
    return values;
}
