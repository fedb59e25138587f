/* The codes of GELU, which keep its derivative in 2, 4 or 8 bits per element. Activations
 * (clprune/activation.h) with a store of form GELU_CODE write and read them.
 *
 * The backward pass of GELU needs only its slope s(h) = Phi(h) + h * phi(h), which lies in
 * [-0.129, 1.129]: dh = dg * s(h). Instead of h in fp32 the forward pass keeps a code, the index of
 * the level nearest to s(h) among 4, 16 or 256 levels. The backward pass multiplies by that level.
 * The levels form a Lloyd-Max quantiser: they minimise the mean square of s(h) - level for
 * h ~ N(0, sigma^2) with log sigma uniform from log 1/2 to log 2 (tools/fit_gelu_code.py). Measured
 * for N(0, 1):
 *
 *     bits   mean square   RMS        largest error, for any h
 *        2      8.03e-3      0.090      0.182
 *        4      4.67e-4      0.022      0.046
 *        8      1.76e-6      0.0013     0.0028
 *
 * The rounding is not random, so dh has a small bias. An infinite h gets the code nearest to its
 * slope, 0 or 1. A NaN gets code 0: it shows in g, but not in dh. */
#ifndef CLPRUNE_GELU_CODE_H
#define CLPRUNE_GELU_CODE_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Codes are kept in a clprune_mat of M rows whose elements are 4 bytes of codes instead of floats.
 * The first code of a byte is in its lowest bits; a row is padded with zero bits to whole elements.
 * Create it with clprune_mat_create; clprune_mat_rows takes rows of it. */
typedef struct clprune_gelu_code_sizes {
    size_t cols;  /* of the matrix of codes: ceil(d * bits / 32) */
    size_t bytes; /* of all M rows */
} clprune_gelu_code_sizes;

/* The sizes of the codes of a rows x cols matrix; bits: 2, 4 or 8. On failure *sizes is zeroed.
 * Errors: INVALID_ARGUMENT, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_gelu_code_size_query(
    size_t rows, size_t cols, unsigned bits, clprune_gelu_code_sizes *sizes);

#ifdef __cplusplus
}
#endif
#endif
