/* bf16 in vector kernels: pairs.clh. */
#ifndef CLPRUNE_OPS_BF16_H
#define CLPRUNE_OPS_BF16_H

#include <stdbool.h>

#include "clprune/context.h"
#include "clprune/matrix.h"
#include "runtime/launch/defines.h"

/* Defines BF16, as pairs.clh takes it, if products are of bf16. */
void clprune__bf16_define(const clprune_context *context, clprune__defines *defines);

/* The same, by conversion if products are not of bf16. */
void clprune__rounding_define(const clprune_context *context, clprune__defines *defines);

/* Defines BF16_IN, BF16_OUT and BF16, as narrow.clh takes them, where the elements of a kernel's
 * source or result are bf16. Either may be CLPRUNE_NO_MAT. */
void clprune__narrow_define(const clprune_context *context, clprune_mat source, clprune_mat result,
    clprune__defines *defines);

/* A matrix of bf16, whose columns, ld and offset are even, as one of words of two elements. */
static inline clprune_mat clprune__words_of(clprune_mat mat)
{
    mat.type = CLPRUNE_VALUES_FP32;
    mat.offset /= 2;
    mat.cols /= 2;
    mat.ld /= 2;
    return mat;
}

/* The way back. */
static inline clprune_mat clprune__pairs_of(clprune_mat words)
{
    words.type = CLPRUNE_VALUES_BF16;
    words.offset *= 2;
    words.cols *= 2;
    words.ld *= 2;
    return words;
}

/* Runs products by AVX512-BF16, bf16_probe.cl; fails if the device does not have it or a result is
 * wrong. Of the operands, a or b is rounded. */
clprune_status clprune__bf16_probe(clprune_context *context, bool round_a);

#endif
