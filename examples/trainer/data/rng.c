#include "trainer/data/rng.h"

#include <math.h>
#include <string.h> /* memcpy */

enum { ROUNDS = 10, WORDS_PER_BLOCK = 4 };

static uint32_t high_word(uint64_t product)
{
    return (uint32_t)(product >> 32);
}

void rng_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; ++round) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * x[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * x[2];
        x[0] = high_word(p1) ^ x[1] ^ k0;
        x[1] = (uint32_t)p1;
        x[2] = high_word(p0) ^ x[3] ^ k1;
        x[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u; /* Weyl steps: golden ratio, sqrt(3) - 1 */
        k1 += 0xBB67AE85u;
    }
    memcpy(out, x, sizeof x);
}

rng rng_open(uint64_t seed, rng_domain domain, uint32_t a, uint32_t b)
{
    const rng r = {
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, b, a, (uint32_t)domain},
        .used = WORDS_PER_BLOCK,
    };
    return r;
}

uint32_t rng_next(rng *r)
{
    if (r->used == WORDS_PER_BLOCK) {
        rng_philox4x32_10(r->counter, r->key, r->block);
        r->counter[0]++;
        r->used = 0;
    }
    return r->block[r->used++];
}

/* Lemire, Fast random integer generation in an interval (ACM TOMACS 2019), algorithm 5: the high
 * word of draw * bound is the answer. Draws whose low word is below 2^32 mod bound are repeated, so
 * each answer has equally many draws. */
uint32_t rng_below(rng *r, uint32_t bound)
{
    uint64_t product = (uint64_t)rng_next(r) * bound;
    if ((uint32_t)product < bound) {
        const uint32_t surplus = (0u - bound) % bound;
        while ((uint32_t)product < surplus)
            product = (uint64_t)rng_next(r) * bound;
    }
    return high_word(product);
}

int32_t rng_between(rng *r, int32_t low, int32_t high)
{
    return low + (int32_t)rng_below(r, (uint32_t)(high - low) + 1);
}

double rng_uniform(rng *r)
{
    return (rng_next(r) + 0.5) * 0x1p-32;
}

/* Box and Muller, A note on the generation of random normal deviates (1958). */
double rng_normal(rng *r)
{
    const double pi = 3.14159265358979323846;
    const double radius = sqrt(-2.0 * log(rng_uniform(r)));
    return radius * cos(2.0 * pi * rng_uniform(r));
}

/* The logarithm of a draw of Gamma(shape): Marsaglia and Tsang, A simple method for generating
 * gamma variables (2000); for a shape below 1 that of shape + 1, times a power of a uniform number.
 */
static double log_gamma(rng *r, double shape)
{
    const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    const double power = shape < 1 ? log(rng_uniform(r)) / shape : 0;
    for (;;) {
        const double x = rng_normal(r), root = 1 + c * x, v = root * root * root;
        if (root > 0 && log(rng_uniform(r)) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + power;
    }
}

double rng_beta(rng *r, double alpha)
{
    const double a = log_gamma(r, alpha), b = log_gamma(r, alpha);
    return 1 / (1 + exp(b - a));
}
