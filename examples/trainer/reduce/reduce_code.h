/*
 * reduce_code.h: windows as 8-bit codes, in 26 % of the bytes.
 *
 * The formula is QUANTISED's (clprune/keep.h) with stochastic rounding, but scale and zero are fp32
 * and a group is 256 floats: zero = min, scale = (max - min) / 255,
 *
 *     code = floor((x - zero) / scale + u)        u uniform in [0, 1)
 *     x'   = zero + scale * code
 *
 * so that x' is x in expectation, within a scale of it. u has 16 bits, as (x - zero) / scale behind
 * its point. A group of equal values is exact, zeros for example; a zero among others is no better
 * than any value. A NaN, an Inf, or max - min above FLT_MAX makes the whole group NaN. Scales below
 * 2^-110 count as 0.
 */
#ifndef TRAINER_REDUCE_CODE_H
#define TRAINER_REDUCE_CODE_H

#include <stddef.h>
#include <stdint.h>

enum { REDUCE_GROUP = 256 };

/* A group as it is sent; of a last group, only the bytes up to its last code. */
typedef struct reduce_code {
    float scale, zero;
    uint8_t codes[REDUCE_GROUP];
} reduce_code;

/* The groups of `count` floats, and the bytes to send. */
size_t reduce_code_groups(size_t count);
size_t reduce_code_bytes(size_t count);

/* A number whose bits are those of a and b, mixed: reduce_key(reduce_key(draw, window), rank). */
uint64_t reduce_key(uint64_t a, uint64_t b);

/* Writes the groups of count floats. u is a function of key and index alone, where x[0] is the
 * first float of group number `first`. */
void reduce_encode(const float *x, size_t count, uint64_t key, size_t first, reduce_code *to);

/* Writes count floats. */
void reduce_decode(const reduce_code *from, size_t count, float *x);

#endif
