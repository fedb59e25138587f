/* The numbers that golden tests start from, the same bit for bit in C and in make_golden.py.
 *
 * A counter-based generator: every number is a pure function of (seed, index), so a tensor can be
 * filled in any order and by any number of threads. No state, no library; only sqrt() of <math.h>
 * is used.
 *
 * Numbers are formed in double, where base + scale * value is exact for every base and scale used
 * here, and rounded to float once, by a cast: a compiler that contracts a * b + c, or narrows
 * double operations to float ones, cannot change a bit.
 *
 * Seeds in use:
 *
 *     7              images of the gradient cases (each case names its own)
 *     100 + t        images of training step t
 *     1000 + i       model parameter i
 *     3000 + i       optimizer parameter i
 *     3100 + 10t + i its gradient at step t
 *     5000 + p       projection p */
#ifndef GOLDEN_RNG_H
#define GOLDEN_RNG_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define GOLDEN_SEED_PARAMETER       1000u
#define GOLDEN_SEED_TRAIN_IMAGE     100u
#define GOLDEN_SEED_OPTIM_PARAMETER 3000u
#define GOLDEN_SEED_OPTIM_GRADIENT  3100u
#define GOLDEN_SEED_PROJECTION      5000u

/* What a tensor is, hence how golden_fill_parameter() fills it. */
typedef enum golden_kind {
    GOLDEN_NONE = 0,        /* not a parameter (logits) */
    GOLDEN_WEIGHT = 1,      /* 0.8 * sqrt(3 / fan_in) * value */
    GOLDEN_BIAS = 2,        /* 0.1 * value */
    GOLDEN_LAYER_SCALE = 3, /* 0.1 + 0.05 * value */
    GOLDEN_ALPHA = 4,       /* 1 + 0.2 * value */
    GOLDEN_BETA = 5         /* 0.1 * value */
} golden_kind;

/* 64 random bits: splitmix64's finaliser over a Weyl sequence in both seed and index, in arithmetic
 * modulo 2^64. */
static inline uint64_t golden_bits(uint64_t seed, uint64_t index)
{
    uint64_t z = seed * UINT64_C(0x9E3779B97F4A7C15) + (index + 1u) * UINT64_C(0xD1B54A32D192ED03);
    z ^= z >> 30;
    z *= UINT64_C(0xBF58476D1CE4E5B9);
    z ^= z >> 27;
    z *= UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return z;
}

/* Uniform in [-1, 1): the top 24 bits times 2^-23, minus 1. Every step is exact in float. */
static inline float golden_value(uint64_t seed, uint64_t index)
{
    return (float)(golden_bits(seed, index) >> 40) * 0x1p-23f - 1.0f;
}

/* out[j] = base + scale * value(seed, j) for j < n, exact in double, then rounded to float. */
static inline void golden_fill_uniform(float base, float scale, uint64_t seed, size_t n, float *out)
{
    for (size_t j = 0; j < n; ++j)
        out[j] = (float)((double)base + (double)scale * (double)golden_value(seed, j));
}

/* Fill a parameter tensor of n elements (row-major) according to its kind; GOLDEN_NONE gives zeros.
 * Base and scale are rounded to float before use.
 *
 * fan_in: inputs per output of a GOLDEN_WEIGHT (columns of a linear layer, 3 * patch^2 of the
 * stem); ignored for the other kinds. seed: GOLDEN_SEED_PARAMETER + position of the tensor in the
 * model's order. */
static inline void golden_fill_parameter(
    golden_kind kind, uint64_t fan_in, uint64_t seed, size_t n, float *out)
{
    static const float base[] = {
        [GOLDEN_LAYER_SCALE] = 0.1f, [GOLDEN_ALPHA] = 1, [GOLDEN_BETA] = 0};
    static const float scale[] = {[GOLDEN_BIAS] = 0.1f,
        [GOLDEN_LAYER_SCALE] = 0.05f,
        [GOLDEN_ALPHA] = 0.2f,
        [GOLDEN_BETA] = 0.1f};
    const float of_weight = (float)(0.8 * sqrt(3.0 / (double)fan_in));
    golden_fill_uniform(base[kind], kind == GOLDEN_WEIGHT ? of_weight : scale[kind], seed, n, out);
}

/* Input images, n = batch * 3 * height * width bytes in NCHW order: the top 8 bits. */
static inline void golden_fill_image(uint64_t seed, size_t n, uint8_t *out)
{
    for (size_t j = 0; j < n; ++j)
        out[j] = (uint8_t)(golden_bits(seed, j) >> 56);
}

/* Their values, 3 x 256: byte v of channel c is 1.5 (v / 128 - 1) + (c - 1) / 8, exactly. */
static inline void golden_fill_levels(float *out)
{
    for (int c = 0; c < 3; ++c) {
        for (int v = 0; v < 256; ++v)
            out[c * 256 + v] = 1.5f * ((float)v * 0x1p-7f - 1.0f) + (float)(c - 1) * 0.125f;
    }
}

/* Label of sample i in a gradient case: (3 i + 1) mod classes. */
static inline uint32_t golden_label(uint32_t i, uint32_t classes)
{
    return (3u * i + 1u) % classes;
}

/* Label of sample i at training step t: (3 i + t) mod classes. */
static inline uint32_t golden_train_label(uint32_t i, uint32_t t, uint32_t classes)
{
    return (3u * i + t) % classes;
}

/* The random sign (+1 or -1) that projection p gives to element j. */
static inline double golden_sign(uint32_t p, uint64_t j)
{
    return golden_value(GOLDEN_SEED_PROJECTION + p, j) >= 0.0f ? 1.0 : -1.0;
}

/* Projection p of x: the sum over j of sign(p, j) * x[j], in double. It may cancel: compare it
 * relative to the l2 norm of x. */
static inline double golden_projection(uint32_t p, size_t n, const float *x)
{
    double sum = 0.0;
    for (size_t j = 0; j < n; ++j)
        sum += golden_sign(p, j) * (double)x[j];
    return sum;
}

/* The l2 norm of x, summed in double. */
static inline double golden_norm(size_t n, const float *x)
{
    double sum = 0.0;
    for (size_t j = 0; j < n; ++j)
        sum += (double)x[j] * (double)x[j];
    return sqrt(sum);
}

#endif
