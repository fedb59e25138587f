/* Random numbers that are the same everywhere: SplitMix64. */
#ifndef CLPRUNE_TEST_RNG_H
#define CLPRUNE_TEST_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct test_rng {
    uint64_t state; /* any seed */
} test_rng;

uint64_t test_rng_next(test_rng *rng);

/* In [0, bound), bound > 0; the bias is below bound * 2^-64. */
size_t test_rng_below(test_rng *rng, size_t bound);

/* In [low, high), with 24 random bits. */
float test_rng_uniform(test_rng *rng, float low, float high);

/* Mean 0, deviation 1. */
void test_fill_normal(uint64_t seed, size_t count, float *values);

/* In [low, high), and the same, in an array of the case (test_memory.h). */
float *test_new_uniform(uint64_t seed, float low, float high, size_t count);
float *test_new_normal(uint64_t seed, size_t count);

#endif
