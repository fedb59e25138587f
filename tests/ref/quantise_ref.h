/* Reference of quantised matrices, in double, by the definitions of quantise_private.h. */
#ifndef CLPRUNE_QUANTISE_REF_H
#define CLPRUNE_QUANTISE_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Code c of a row of words, its bits read one by one. */
unsigned quantise_ref_code(const uint32_t *row, unsigned bits, size_t c);

/* The expected zero and scale of a group, its least and largest value as the kernels clamp them,
 * and the first code that is read as no less than the least one, or else the last. If not finite,
 * the scale must be NaN. */
typedef struct quantise_ref_group {
    bool finite;
    double zero, scale, low, high;
    unsigned first;
} quantise_ref_group;

/* The scale and the zero that a word of a group stands for. */
float quantise_ref_scale(unsigned bits, uint32_t word);
float quantise_ref_zero(uint32_t word);

/* rotated: of values that were rotated. */
quantise_ref_group quantise_ref_of(unsigned bits, bool rotated, size_t count, const float *x);

/* x as the kernels clamp it: tiny magnitudes are 0, huge finite ones 2^126. */
double quantise_ref_bounded(float x);

/* The finaliser of MurmurHash3 (32 bits), and the stream of a sample: what draws are made of. */
uint32_t quantise_ref_mix(uint32_t h);
uint32_t quantise_ref_stream(uint64_t seed, uint32_t sample);

/* u in [0, 1) for element `position` of a sample. */
double quantise_ref_uniform(uint64_t seed, uint32_t sample, uint32_t position);

#endif
