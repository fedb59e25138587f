/* Reference of the narrow value types of BSR, by arithmetic in double on the definition of each. */
#ifndef CLPRUNE_BSR_VALUES_REF_H
#define CLPRUNE_BSR_VALUES_REF_H

#include <stddef.h>
#include <stdint.h>

/* A binary format of IEEE's kind: sign, exponent, fraction. */
typedef struct float_format {
    int exponent_bits, fraction_bits;
} float_format;

static const float_format ref_fp16 = {5, 10}, ref_bf16 = {8, 7};

/* The code of the nearest value, ties to even; finite values beyond the largest become that; NaN is
 * the quiet one of the sign of x. */
uint16_t float_format_encode(float_format format, float x);
double float_format_decode(float_format format, uint16_t code);

/* The scale of a block of integers up to `most`, a bf16, and the code of one of its elements. */
uint16_t int_ref_scale(int most, size_t count, const float *block);
int8_t int_ref_encode(float scale, float x);

/* Code e of a block of int4. */
int int4_ref_code(const unsigned char *block, size_t e);

#endif
