/*
 * rng.h: counter-based random numbers.
 *
 * A draw is a pure function of (seed, domain, a, b, position): no state is carried from one image
 * or epoch to the next, so a resumed run sees the same numbers as an uninterrupted one.
 *
 *     rng r = rng_open(seed, RNG_SHUFFLE, epoch, 0);
 *     uint32_t die = 1 + rng_below(&r, 6);
 */
#ifndef TRAINER_RNG_H
#define TRAINER_RNG_H

#include <stdint.h>

/* What a stream is for; streams of different domains never overlap. */
typedef enum rng_domain {
    RNG_SHUFFLE = 1,   /* a = epoch, b = 0 */
    RNG_AUGMENT = 2,   /* a = epoch, b = image index */
    RNG_IMAGE = 3,     /* a = split, b = image index: the scene of a generated image */
    RNG_NOISE = 4,     /* a = split, b = image index: its pixel noise */
    RNG_INIT = 5,      /* a = tensor, b = 0: initial parameters */
    RNG_PRUNE = 6,     /* a, b = low and high half of the step: the draws of sampled pruning */
    RNG_OFFSET = 7,    /* a = epoch, b = 0: where sequences of tokens begin */
    RNG_SEQUENCE = 8,  /* a = split, b = sequence: generated tokens */
    RNG_SUCCESSOR = 9, /* a = token, b = 0: what may follow it in generated tokens */
    RNG_SAMPLE = 10,   /* a = token, b = 0: what a model writes */
    RNG_DRAWN = 11,    /* a = which, b = how many: samples drawn over a file */
    RNG_ERASE = 12,    /* a = epoch, b = image index */
    RNG_MIX = 13,      /* likewise */
    RNG_RAND_AUGMENT = 14
} rng_domain;

/* One stream of 2^34 draws. A plain value: a copy continues on its own. The fields are private. */
typedef struct rng {
    uint32_t key[2];
    uint32_t counter[4]; /* block number, b, a, domain */
    uint32_t block[4];
    uint32_t used; /* words of block handed out so far */
} rng;

/* The stream's first draw comes next. */
rng rng_open(uint64_t seed, rng_domain domain, uint32_t a, uint32_t b);

/* 32 uniform bits. */
uint32_t rng_next(rng *r);

/* Uniform in [0, bound), without bias; bound >= 1. */
uint32_t rng_below(rng *r, uint32_t bound);

/* Uniform in [low, high], both included; low <= high, high - low < 2^31. */
int32_t rng_between(rng *r, int32_t low, int32_t high);

/* Uniform in (0, 1), never 0 or 1. */
double rng_uniform(rng *r);

/* Normal with mean 0 and deviation 1. */
double rng_normal(rng *r);

/* Beta(alpha, alpha), in [0, 1]; alpha > 0. */
double rng_beta(rng *r, double alpha);

/* The bijection underneath: out = Philox4x32-10(counter, key). out may alias counter.
 * Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011), section 4.3.
 */
void rng_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
